#include "serve/handlers/playground.h"

#include "base/log.h"
#include "serve/handlers/page_bytes.h"

namespace saccade::serve {

void add_playground(Router& router) {
  if (page_html().empty()) {
    log::info("there is no page at /: this program was built without npm");
    return;
  }
  router.add({"GET", "/", [&router](const net::HttpRequest&, const Reply& reply) {
                // Nobody may frame it, and of the browser's devices it has the camera alone.
                router.respond(
                    reply, {200,
                            "text/html; charset=utf-8",
                            std::string(page_html()),
                            {{"Content-Security-Policy", std::string(page_policy())},
                             {"Permissions-Policy", "camera=(self), microphone=(), geolocation=()"},
                             {"X-Content-Type-Options", "nosniff"},
                             {"Referrer-Policy", "no-referrer"},
                             {"Cross-Origin-Opener-Policy", "same-origin"},
                             {"Cache-Control", "no-cache"}}});
              }});
}

}  // namespace saccade::serve
