// Log lines for people: formatted here, written by whoever the process says, standard error unless told
// otherwise.
#pragma once
#include <string_view>

namespace megascale {

enum class Level { warn, info, trace };

// Gets one line without a newline; called from any thread, perhaps from several at once.
using LogFunction = void (*)(Level, const char* line);

// Where lines go from now on; nullptr: back to standard error, each line as "megascale: ...".
void log_to(LogFunction);

// The most talkative level that is written: warn | info | trace. Info at first. An unknown word changes
// nothing.
void log_up_to(Level);
void log_up_to(std::string_view word);
bool logs(Level);

// Lines longer than 2 KiB are cut. Takes no lock and no memory, so it is safe after fork() and in a
// destructor.
[[gnu::format(printf, 2, 3)]] void logf(Level, const char* format, ...);

}  // namespace megascale
