#include "plugin/host/data_type.h"

#include <utility>

namespace megascale::host {

size_t size_of(DataType type) {
  switch (type) {
    case DataType::i8:
    case DataType::u8:
      return 1;
    case DataType::bf16:
      return 2;
    case DataType::i32:
    case DataType::u32:
    case DataType::f32:
      return 4;
    case DataType::i64:
    case DataType::u64:
    case DataType::f64:
      return 8;
  }
  return 0;
}

std::string_view name_of(DataType type) {
  static constexpr std::string_view names[] = {"i8", "u8", "i32", "u32", "i64", "u64", "f32", "f64", "bf16"};
  return names[static_cast<size_t>(type)];
}

std::string_view name_of(ReduceOp op) {
  static constexpr std::string_view names[] = {"sum", "prod", "min", "max"};
  return names[static_cast<size_t>(op)];
}

std::optional<DataType> data_type(std::string_view name) {
  static constexpr std::pair<std::string_view, DataType> familiar[] = {
      {"int8", DataType::i8},    {"uint8", DataType::u8},     {"int32", DataType::i32},
      {"uint32", DataType::u32}, {"int64", DataType::i64},    {"uint64", DataType::u64},
      {"float", DataType::f32},  {"fp32", DataType::f32},     {"double", DataType::f64},
      {"fp64", DataType::f64},   {"bfloat16", DataType::bf16}};
  for (DataType type : kDataTypes) {
    if (name == name_of(type)) return type;
  }
  for (const auto& [alias, type] : familiar) {
    if (name == alias) return type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> reduce_op(std::string_view name) {
  for (ReduceOp op : kReduceOps) {
    if (name == name_of(op)) return op;
  }
  return std::nullopt;
}

}  // namespace megascale::host
