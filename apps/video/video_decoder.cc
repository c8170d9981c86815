// The program that decodes video files for `saccade serve` (src/video/): it is started for one file
// and speaks to its server alone.
#include <unistd.h>

#include "video/child/decoder_main.h"

int main() { ::_exit(saccade::video::decode_as_ordered()); }
