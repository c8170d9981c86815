// Pages of the KV pool for one model: integers and bytes, no tensors. Jenga and its baselines stand
// behind this header.
#pragma once
