// The playground: a page that tries the model from a browser.
#pragma once

#include "serve/router.h"

namespace saccade::serve {

// GET /, without a key: the page holds no secret, and asks for the key itself. Nothing is added
// where the program was built without it.
void add_playground(Router& router);

}  // namespace saccade::serve
