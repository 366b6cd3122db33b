// The functions of cuBLASLt that calor calls, found at run time, with the numbers of its attributes. Declared after
// NVIDIA's documentation of the library; versions 12 and 13 agree in all of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace calor::cuda::lt {

using Status = int;    ///< cublasStatus_t; 0: success
using Object = void*;  ///< handles, descriptors, layouts, preferences, streams

/// cudaDataType_t
enum DataType : int { real_32 = 0, real_64 = 1, real_16 = 2, real_b16 = 14 };
/// cublasComputeType_t
enum ComputeType : int { compute_32 = 68, compute_64 = 70, compute_32_fast_tf32 = 77 };
/// cublasLtMatmulDescAttributes_t
enum DescriptionAttribute : int { transpose_a = 3, transpose_b = 4, epilogue = 7, bias_pointer = 8 };
/// cublasLtMatrixLayoutAttribute_t
enum LayoutAttribute : int { batch_count = 5, batch_offset = 6 };
/// cublasLtMatmulPreferenceAttributes_t
enum PreferenceAttribute : int {
    most_workspace = 1,
    reduction_schemes = 3,
    alignment_a = 5,
    alignment_b = 6,
    alignment_c = 7,
    alignment_d = 8,
};
constexpr std::int32_t keep = 0, transpose = 1;      // cublasOperation_t
constexpr std::uint32_t with_bias = 4;               // cublasLtEpilogue_t
constexpr std::uint32_t reduce_in_compute_type = 2;  // cublasLtReductionScheme_t

/// cublasLtMatmulAlgo_t
struct Algorithm {
    std::uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t
struct Choice {
    Algorithm algorithm;
    std::size_t workspace;
    Status state;
    float waves;
    int reserved[4];
};
static_assert(sizeof(Choice) == 96);

struct Api {
    Status (*create)(Object*);
    std::size_t (*version)();
    const char* (*status_string)(Status);
    Status (*description_create)(Object*, int compute, int scale);
    Status (*description_set)(Object, int attribute, const void*, std::size_t);
    Status (*description_destroy)(Object);
    Status (*layout_create)(Object*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
    Status (*layout_set)(Object, int attribute, const void*, std::size_t);
    Status (*layout_destroy)(Object);
    Status (*preference_create)(Object*);
    Status (*preference_set)(Object, int attribute, const void*, std::size_t);
    Status (*preference_destroy)(Object);
    Status (*heuristic)(Object handle, Object description, Object a, Object b, Object c, Object d, Object preference,
                        int wanted, Choice*, int* found);
    Status (*matmul)(Object handle, Object description, const void* alpha, const void* a, Object a_layout,
                     const void* b, Object b_layout, const void* beta, const void* c, Object c_layout, void* d,
                     Object d_layout, const Algorithm*, void* workspace, std::size_t workspace_bytes, Object stream);
};
/// Null when libcublasLt is not installed.
const Api* api();

}  // namespace calor::cuda::lt
