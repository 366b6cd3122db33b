// Convolution layers over any number of spatial axes: as many as `.kernel` has entries.
#pragma once

#include "calor/conv.h"
#include "calor/nn/fields.h"

namespace calor::nn {

/// x [N, in, spatial...] -> [N, out, positions...]; the formula is calor::conv's.
class Conv {
public:
    struct Options {
        std::int64_t in = 0;         ///< channels that come in, 1 or more, a multiple of groups
        std::int64_t out = 0;        ///< channels that go out, 1 or more, a multiple of groups
        PerAxis kernel = {};         ///< {3, 3} for two spatial axes; one number for all axes needs `axes`
        PerAxis stride = {};         ///< 1 unless given
        WindowPadding padding = {};  ///< none unless given; calor::same and calor::valid
        PadMode padding_mode = PadMode::constant;  ///< what is put there; zeros unless given
        PerAxis dilation = {};                     ///< 1 unless given
        std::int64_t groups = 1;
        bool bias = true;
        std::int64_t axes = 0;  ///< number of spatial axes; 0: as many as kernel has entries
        DType dtype = f32;
    };
    /// Weight and bias start uniform in 1 / sqrt(in / groups * kernel elements) either side of 0.
    /// Throws ValueError [value/option], [value/count].
    explicit Conv(const Options& options, const Where& where = Where::current());
    /// Throws as calor::conv.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    Parameter weight;  ///< [out, in / groups, kernel...]
    Parameter bias;    ///< [out], or undefined
    CALOR_FIELDS(weight, bias)

private:
    calor::ConvOptions options_;
};

/// x [N, in, sizes...] -> [N, out, ...]; the sizes are calor::conv_transpose's.
class ConvTranspose {
public:
    struct Options {
        std::int64_t in = 0;
        std::int64_t out = 0;
        PerAxis kernel = {};
        PerAxis stride = {};
        WindowPadding padding = {};
        PerAxis output_padding = {};  ///< more positions at the far end; 0 unless given
        PerAxis output_size = {};     ///< spatial sizes of every result, in place of output_padding
        PerAxis dilation = {};
        std::int64_t groups = 1;
        bool bias = true;
        std::int64_t axes = 0;
        DType dtype = f32;
    };
    /// Weight and bias start uniform in 1 / sqrt(out / groups * kernel elements) either side of 0, as PyTorch's do.
    /// Throws ValueError [value/option], [value/count].
    explicit ConvTranspose(const Options& options, const Where& where = Where::current());
    /// Throws as calor::conv_transpose.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    /// To these spatial sizes, whatever the options say.
    Tensor operator()(const Tensor& x, const PerAxis& output_size, const Where& where = Where::current()) const;

    Parameter weight;  ///< [in, out / groups, kernel...]
    Parameter bias;    ///< [out], or undefined
    CALOR_FIELDS(weight, bias)

private:
    calor::ConvTransposeOptions options_;
};

}  // namespace calor::nn
