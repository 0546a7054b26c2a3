// Whether a page or a picture is markup that a browser takes.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace megascale::sim {

// Tags that open are closed, in their order; what stands between is escaped.
inline void expect_well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = text.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    if (tag[0] == '!' || tag.ends_with('/')) continue;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" \n") - (tag[0] == '/' ? 1 : 0));
    if (tag[0] != '/') {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), name) << "at " << at;
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

}  // namespace megascale::sim
