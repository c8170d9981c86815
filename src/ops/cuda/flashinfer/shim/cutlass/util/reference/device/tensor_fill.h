// Stands for CUTLASS's header of this name, first on the path: FlashInfer includes that and uses
// nothing of it, and it wants cuRAND's headers.
#pragma once
