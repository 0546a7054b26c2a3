// Fuzzes the parser of the records that the two ends of a connection say to each other: whatever is accepted
// is accepted in one form only, so writing it again gives the same bytes, and no count leads out of its
// array.
#include "tests/fuzz/fuzz.h"
#include "transport/rails/wire.h"

using namespace megascale;

namespace {

template <class T>
void same_again(const std::optional<T>& value, ConstBytes bytes) {
  if (!value) return;
  const wire::Record again = wire::write(*value);
  must(std::equal(bytes.begin(), bytes.end(), again.bytes().begin(), again.bytes().end()),
       "a record has two forms");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ConstBytes bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto kind = wire::kind_of(bytes);
  if (!kind) return 0;
  if (kind == wire::Kind::state) same_again(wire::read_state(bytes), bytes);
  if (kind == wire::Kind::resume) same_again(wire::read_resume(bytes), bytes);
  if (kind == wire::Kind::bye) same_again(wire::read_bye(bytes), bytes);
  if (kind == wire::Kind::open) {
    const auto open = wire::read_open(bytes);
    same_again(open, bytes);
    if (open) must(open->n == 0 || open->names(open->alive[0]), "an epoch that was named is not");
  }
  return 0;
}
