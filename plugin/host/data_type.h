// The element types and operators of collectives.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace megascale::host {

enum class DataType : uint8_t { i8, u8, i32, u32, i64, u64, f32, f64, bf16 };
enum class ReduceOp : uint8_t { sum, prod, min, max };

inline constexpr DataType kDataTypes[] = {DataType::i8,  DataType::u8,  DataType::i32,
                                          DataType::u32, DataType::i64, DataType::u64,
                                          DataType::f32, DataType::f64, DataType::bf16};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max};

size_t size_of(DataType);  // bytes

std::string_view name_of(
    DataType);  // "f32"; nccl-tests' "float", "int32" and the like are understood as well
std::string_view name_of(ReduceOp);
std::optional<DataType> data_type(std::string_view name);
std::optional<ReduceOp> reduce_op(std::string_view name);

}  // namespace megascale::host
