// The functions of cuDNN 9 that calor calls, found at run time, with the numbers of its enumerations. Declared after
// NVIDIA's documentation of the library.
#pragma once

#include <cstddef>

namespace calor::cuda::dnn {

using Status = int;    ///< cudnnStatus_t; 0: success
using Object = void*;  ///< handles, descriptors, streams

/// cudnnDataType_t
enum DataType : int { real_32 = 0, real_64 = 1, real_16 = 2, real_b16 = 9 };
/// cudnnTensorFormat_t
enum Format : int { plain = 0, channels_last = 1 };
/// cudnnMathType_t
enum MathType : int { default_math = 0, tensor_math = 1, fma_math = 3 };
constexpr int cross_correlation = 1;  // cudnnConvolutionMode_t
constexpr int deterministic = 1;      // cudnnDeterminism_t
constexpr int identity = 5;           // cudnnActivationMode_t
constexpr int precomputed_gemm = 1;   // cudnnConvolutionFwdAlgo_t, the one that adds a bias

/// cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, which are alike.
struct Candidate {
    int algorithm;
    Status status;
    float time;
    std::size_t memory;
    int determinism;
    int math;
    int reserved[3];
};
static_assert(sizeof(Candidate) == 48);

/// The three roles differ in the order of their descriptors only.
using Ask = Status (*)(Object handle, Object, Object, Object, Object, int wanted, int* found, Candidate*);

struct Api {
    std::size_t (*version)();
    const char* (*status_string)(Status);
    Status (*create)(Object*);
    Status (*set_stream)(Object, Object stream);
    Status (*tensor_create)(Object*);
    Status (*tensor_set)(Object, int type, int rank, const int* sizes, const int* strides);
    Status (*tensor_destroy)(Object);
    Status (*filter_create)(Object*);
    Status (*filter_set)(Object, int type, int format, int rank, const int* sizes);
    Status (*filter_destroy)(Object);
    Status (*conv_create)(Object*);
    Status (*conv_set)(Object, int axes, const int* pad, const int* stride, const int* dilation, int mode, int type);
    Status (*conv_groups)(Object, int groups);
    Status (*conv_math)(Object, int math);
    Status (*conv_destroy)(Object);
    Status (*activation_create)(Object*);
    Status (*activation_set)(Object, int mode, int nan_propagation, double coefficient);
    Status (*activation_destroy)(Object);
    Ask forward_ask;  ///< x, w, conv, y
    Ask data_ask;     ///< w, gy, conv, gx
    Ask filter_ask;   ///< x, gy, conv, gw
    Status (*forward)(Object handle, const void* alpha, Object x_type, const void* x, Object w_type, const void* w,
                      Object conv, int algorithm, void* workspace, std::size_t bytes, const void* beta, Object y_type,
                      void* y);
    Status (*backward_data)(Object handle, const void* alpha, Object w_type, const void* w, Object gy_type,
                            const void* gy, Object conv, int algorithm, void* workspace, std::size_t bytes,
                            const void* beta, Object gx_type, void* gx);
    Status (*backward_filter)(Object handle, const void* alpha, Object x_type, const void* x, Object gy_type,
                              const void* gy, Object conv, int algorithm, void* workspace, std::size_t bytes,
                              const void* beta, Object gw_type, void* gw);
    Status (*forward_bias)(Object handle, const void* alpha, Object x_type, const void* x, Object w_type, const void* w,
                           Object conv, int algorithm, void* workspace, std::size_t bytes, const void* alpha_z,
                           Object z_type, const void* z, Object bias_type, const void* bias, Object activation,
                           Object y_type, void* y);
    Status (*add)(Object handle, const void* alpha, Object a_type, const void* a, const void* beta, Object c_type,
                  void* c);
};
/// Null when libcudnn 9 is not installed.
const Api* api();

}  // namespace calor::cuda::dnn
