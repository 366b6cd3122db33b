// Deformable convolution on GPUs: the places of the taps, columns that are sampled there (sampling_gpu.h), and products
// with the weight; for the gradients the adjoints of each (deform_grad.cpp has the formulas). A chunk of samples at a
// time, so that columns stay in bounds. Nothing depends on the order in which threads run.
#include <optional>

#include "ops/grid/deform.h"
#include "ops/grid/sampling_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile grid_deform;
}

namespace ops::deform {
namespace {

constexpr std::int64_t column_bytes = std::int64_t{256} << 20;  // of a chunk, or of one sample

/// A view of shape and strides of its own.
struct Block {
    Shape shape;
    Strides strides;
    void* data = nullptr;
    DType dtype = f32;
    Block(std::initializer_list<std::int64_t> sizes, void* memory, DType d)
        : shape(sizes), strides(contiguous_strides(shape)), data(memory), dtype(d) {}
    View view() const { return {data, dtype, &shape, &strides}; }
};

std::byte* at(const View& v, std::int64_t offset) { return v.as<std::byte>() + offset * size_of(v.dtype); }

class Deform {
public:
    Deform(bool backward, const graph::Call& call)
        : call_(call),
          a_(call.attrs<Attributes>()),
          o_(operands(backward, call)),
          s_(sizes_of(a_, o_.x.size(0), o_.x.size(1), o_.weight.size(0))),
          x_(call, o_.x),
          offset_(call, o_.offset),
          weight_(call, o_.weight),
          wide_(o_.x.dtype == f64 ? f64 : f32) {
        if (o_.mask) mask_.emplace(call, *o_.mask);
        if (o_.bias) bias_.emplace(call, *o_.bias);
        if (backward) y_.emplace(call, o_.y);
        plane_ = s_.taps * s_.points;
        sampling_.pixels = true;
        sampling_.sizes = a_.sizes;
        sampling_.orders = Dims(s_.axes, 0);
        const std::int64_t sample = std::max<std::int64_t>(1, s_.channels * plane_ * size_of(wide_));
        chunk_ = std::clamp<std::int64_t>(column_bytes / sample, 1, std::max<std::int64_t>(1, s_.samples));
    }

    void forward() {
        if (o_.y.count() == 0) return;
        const Ref<Storage> u = memory(chunk_ * a_.offset_groups * plane_ * s_.axes);
        const Ref<Storage> columns = memory(chunk_ * s_.channels * plane_);
        for (std::int64_t n = 0; n < s_.samples; n += chunk_) {
            const std::int64_t some = std::min(chunk_, s_.samples - n);
            sample(n, some, u, columns);
            apply_mask(n, some, columns);
            product(some, {weight_.view(), columns_view(columns), from(o_.y, n)}, per_out(), s_.points, per_column(), 1,
                    {0, per_column(), 1}, {0, s_.points, 1}, {s_.points, 1}, {0, per_out() * per_column()},
                    {s_.channels * plane_, per_column() * s_.points}, {s_.out * s_.points, per_out() * s_.points},
                    false);
        }
    }

    void backward() {
        const bool flows = o_.gx || o_.goffset;
        const bool sampled_too = o_.gweight || o_.gmask;
        const std::int64_t column_count = chunk_ * s_.channels * plane_;
        const Ref<Storage> u = memory(chunk_ * a_.offset_groups * plane_ * s_.axes);
        const Ref<Storage> flow = memory(flows ? column_count : 1), sampled = memory(sampled_too ? column_count : 1);
        const Ref<Storage> gweight = memory(o_.gweight ? o_.weight.count() : 1);
        if (o_.gweight && s_.samples == 0) {
            return call_.backend.gpu()->fill(o_.gweight->data, 0, o_.gweight->count() * size_of(o_.gweight->dtype));
        }
        for (std::int64_t n = 0; n < s_.samples; n += chunk_) {
            const std::int64_t some = std::min(chunk_, s_.samples - n);
            if (sampled_too) {
                sample(n, some, u, sampled);
            } else {
                places(n, some, u);
            }
            if (flows) {
                product(some, {weight_.view(), from(y_->view(), n), columns_view(flow)}, per_column(), s_.points,
                        per_out(), 1, {0, 1, per_column()}, {0, s_.points, 1}, {s_.points, 1},
                        {0, per_out() * per_column()}, {s_.out * s_.points, per_out() * s_.points},
                        {s_.channels * plane_, per_column() * s_.points}, false);
            }
            if (o_.gmask) mask_grad(n, some, flow, sampled);
            if (flows) apply_mask(n, some, flow);
            if (o_.goffset) slopes(n, some, u, flow);
            if (o_.gx) spread(n, some, u, flow);
            if (!o_.gweight) continue;
            apply_mask(n, some, sampled);
            product(1, {from(y_->view(), n), columns_view(sampled), {gweight->data, wide_, nullptr, nullptr}},
                    per_out(), per_column(), s_.points, some, {s_.out * s_.points, s_.points, 1},
                    {s_.channels * plane_, 1, s_.points}, {per_column(), 1}, {0, per_out() * s_.points},
                    {0, per_column() * s_.points}, {0, per_out() * per_column()}, n > 0);
        }
        if (o_.gweight) store(gweight, *o_.gweight);
    }

private:
    std::int64_t per_out() const { return s_.out / a_.groups; }
    std::int64_t per_column() const { return s_.per_group * s_.taps; }  ///< rows of a group's columns
    Ref<Storage> memory(std::int64_t count) const {
        return graph::scratch(call_, std::max<std::int64_t>(1, count) * size_of(wide_));
    }
    gpu::Launch start(const char* entry) const {
        gpu::Launch l = launch(call_, kernels::grid_deform, entry);
        l.constant("A", wide_);
        return l;
    }
    View columns_view(const Ref<Storage>& columns) const { return {columns->data, wide_, nullptr, nullptr}; }
    /// The operand from sample n on.
    static View from(const View& v, std::int64_t n) {
        View part = v;
        part.data = at(v, n * v.stride(0));
        return part;
    }

    void places(std::int64_t n, std::int64_t samples, const Ref<Storage>& u) const {
        const std::int64_t count = samples * a_.offset_groups * plane_;
        const Window& w = a_.window;
        start("places")
            .constant("X", offset_.view().dtype)
            .constant("RANK", s_.axes)
            .buffer(at(offset_.view(), n * a_.offset_groups * plane_ * s_.axes))
            .buffer(u)
            .size(count)
            .size(s_.points)
            .size(s_.taps)
            .layout(a_.positions, {w.kernel, w.stride, w.dilation, w.pad_low})
            .wide(count * s_.axes >= std::int64_t{1} << 30)
            .over(count);
    }
    /// The views of a chunk: of x (or its gradient) by offset groups, of places and of columns.
    Block elements(const View& x, std::int64_t n, std::int64_t samples) const {
        Block b({samples * a_.offset_groups, s_.per_offset}, at(x, n * s_.channels * s_.elements), x.dtype);
        for (const std::int64_t size : a_.sizes) b.shape.push_back(size);
        b.strides = contiguous_strides(b.shape);
        return b;
    }
    Block grid_block(std::int64_t samples, const Ref<Storage>& u) const {
        return Block({samples * a_.offset_groups, s_.taps, s_.points, s_.axes}, u->data, wide_);
    }
    Block column_block(std::int64_t samples, const Ref<Storage>& columns) const {
        return Block({samples * a_.offset_groups, s_.per_offset, s_.taps, s_.points}, columns->data, wide_);
    }

    void sample(std::int64_t n, std::int64_t samples, const Ref<Storage>& u, const Ref<Storage>& columns) const {
        places(n, samples, u);
        grid::sample_on_gpu(call_, sampling_, elements(x_.view(), n, samples).view(), grid_block(samples, u).view(),
                            column_block(samples, columns).view());
    }
    void slopes(std::int64_t n, std::int64_t samples, const Ref<Storage>& u, const Ref<Storage>& flow) const {
        Block to({samples * a_.offset_groups, s_.taps, s_.points, s_.axes},
                 at(*o_.goffset, n * a_.offset_groups * plane_ * s_.axes), o_.goffset->dtype);
        to.strides = {plane_ * s_.axes, s_.points * s_.axes, 1, s_.points};
        grid::slope_on_gpu(call_, sampling_, elements(x_.view(), n, samples).view(), grid_block(samples, u).view(),
                           column_block(samples, flow).view(), to.view());
    }
    void spread(std::int64_t n, std::int64_t samples, const Ref<Storage>& u, const Ref<Storage>& flow) const {
        grid::spread_on_gpu(call_, sampling_, column_block(samples, flow).view(), grid_block(samples, u).view(),
                            elements(*o_.gx, n, samples).view());
    }

    void apply_mask(std::int64_t n, std::int64_t samples, const Ref<Storage>& columns) const {
        if (!mask_) return;
        const std::int64_t count = samples * s_.channels * plane_;
        start("apply_mask")
            .constant("X", mask_->view().dtype)
            .buffer(columns)
            .buffer(at(mask_->view(), n * a_.offset_groups * plane_))
            .size(count)
            .size(plane_)
            .size(s_.per_offset)
            .over(count);
    }
    void mask_grad(std::int64_t n, std::int64_t samples, const Ref<Storage>& flow, const Ref<Storage>& sampled) const {
        const std::int64_t count = samples * a_.offset_groups * plane_;
        start("mask_grad")
            .constant("X", o_.gmask->dtype)
            .buffer(flow)
            .buffer(sampled)
            .buffer(at(*o_.gmask, n * count / std::max<std::int64_t>(1, samples)))
            .size(count)
            .size(plane_)
            .size(s_.per_offset)
            .wide(count * s_.per_offset >= std::int64_t{1} << 30)
            .over(count);
    }

    struct Three {
        View a, b, c;
    };
    /// For every sample and weight group the product of [m, k] and [k, n], summed over `sums` samples.
    void product(std::int64_t samples, const Three& t, std::int64_t m, std::int64_t n, std::int64_t k,
                 std::int64_t sums, const Dims& a, const Dims& b, const Dims& c, const Dims& a_batch,
                 const Dims& b_batch, const Dims& c_batch, bool adds) const {
        const bool bias = bias_.has_value();
        const std::int64_t tiles = (m + 31) / 32 * ((n + 31) / 32), groups = tiles * samples * a_.groups;
        const std::int64_t far = std::max({samples, sums}) * std::max(s_.channels * plane_, s_.out * s_.points);
        gpu::Launch l = start("product");
        l.constant("P", t.a.dtype).constant("Q", t.b.dtype).constant("R", t.c.dtype);
        l.constant("BIAS", bias).constant("ADDS", adds).wide(far >= std::int64_t{1} << 30);
        l.buffer(t.a.data).buffer(t.b.data).buffer(bias ? bias_->view().data : t.a.data).buffer(t.c.data);
        l.size(m).size(n).size(k).size(sums).size(1);
        l.layout(Dims{1, 1, 1}, {a, b, Dims{c[0], c[1], 0}});
        l.layout(Dims{samples, a_.groups}, {a_batch, b_batch, c_batch}).run(groups);
    }

    void store(const Ref<Storage>& sums, const View& to) const {
        if (to.dtype == wide_) return call_.backend.gpu()->copy(to.data, sums->data, to.count() * size_of(wide_));
        start("rounded").constant("X", to.dtype).buffer(sums).buffer(to).size(to.count()).over(to.count());
    }

    const graph::Call& call_;
    const Attributes& a_;
    Operands o_;
    Sizes s_;
    Dense x_, offset_, weight_;
    std::optional<Dense> mask_, bias_, y_;
    DType wide_;
    grid::Attributes sampling_;
    std::int64_t plane_ = 1, chunk_ = 1;
};

}  // namespace

void run_on_gpu(bool backward, const graph::Call& call) {
    Deform deform(backward, call);
    if (backward) {
        deform.backward();
    } else {
        deform.forward();
    }
}

}  // namespace ops::deform
}  // namespace calor
