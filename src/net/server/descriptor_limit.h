// Thousands of streams need thousands of descriptors.
#pragma once

namespace saccade::net {

// As many as the system lets this process have. Any thread; once is enough.
void raise_descriptor_limit();

}  // namespace saccade::net
