// Instructions of a conversation (roles system and developer) where a template has a place for
// them. Most know one system message, at the front.
#pragma once

#include "base/json.h"
#include "text/templates/chat_template.h"
#include "text/templates/content_format.h"

namespace saccade {

// Told by rendering probes. Immutable; any thread.
class SystemMessages {
 public:
  // `variables` as in ChatTemplateOptions.
  static SystemMessages of(const ChatTemplate& chat_template, const ContentFormat& format,
                           const json::object& variables);

  // A developer's message that the template does not know is the system's, and goes into the first
  // system message; so does a later system message that the template refuses or leaves out. They
  // are joined by an empty line. A message with an image stays where it is.
  void arrange(json::array& messages) const;

  bool knows_developer() const { return developer_.first; }

 private:
  // Where a role's message is shown.
  struct Places {
    bool first = false;
    bool second = false;  // right behind other instructions
    bool later = false;   // behind somebody else's
  };
  Places system_{true, true, true};
  Places developer_;
};

}  // namespace saccade
