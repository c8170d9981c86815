// Image embeddings by content, byte-accounted. Bodies and policy: memory/.
#pragma once
