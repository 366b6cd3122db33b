// Sums and choices at positions that a tensor names, on GPUs. The entries are sorted by their position (a stable sort),
// and every position collects its own: no atomics, the same bits every time. Planes are worked on in chunks that bound
// memory.
#include <vector>

#include "device/gpu/buckets.h"
#include "ops/pool/index_planes.h"
#include "ops/spatial_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile pool_planes;
}

namespace ops::pool {
namespace {

constexpr std::int64_t most_entries = std::int64_t{1} << 26;

class Planes {
public:
    Planes(const graph::Call& call, bool scatters)
        : call_(call), values_(call, call.inputs[0]), indices_(call, call.inputs[1]), y_(call.outputs[0]) {
        planes_ = y_.size(0) * y_.size(1);
        const std::int64_t named = call.inputs[1].count(), whole = scatters ? y_.count() : call.inputs[0].count();
        positions_ = planes_ == 0 ? 0 : named / planes_;
        spatial_ = planes_ == 0 ? 0 : whole / planes_;
    }

    /// Throws for the first position that lies outside of its plane.
    void check() const {
        const View& v = indices_.view();
        const std::int64_t count = v.count(), groups = std::min<std::int64_t>((count + 255) / 256, 1024);
        if (count == 0) return;
        const Ref<Storage> first = graph::scratch(call_, groups * 8);
        start("check").constant("I", v.dtype).buffer(v).buffer(first).size(count).size(spatial_).run(groups);
        std::vector<std::int64_t> found(static_cast<std::size_t>(groups));
        call_.backend.stream().copy_to_host(found.data(), first->data, groups * 8);
        const std::int64_t at = *std::ranges::min_element(found);
        if (at < count) fail_range(call_, index_at(at), at, spatial_);
    }

    void scatter(bool last) const {
        const std::int64_t chunk = chunk_planes();
        for (std::int64_t p = 0; p < planes_; p += chunk) {
            const std::int64_t some = std::min(chunk, planes_ - p), entries = some * positions_, keys = some * spatial_;
            const gpu::Buckets buckets = sorted(p, entries, keys);
            start("collect")
                .constant("X", adding(y_.dtype))
                .constant("LAST", last)
                .buffer(part(values_.view(), p * positions_))
                .buffer(buckets.first)
                .buffer(buckets.entries)
                .buffer(part(y_, p * spatial_))
                .size(keys)
                .wide(entries >= far)
                .over(keys);
        }
    }

    void gather() const {
        start("gather")
            .constant("E", carrier(y_.dtype))
            .constant("I", indices_.view().dtype)
            .buffer(values_.view())
            .buffer(indices_.view())
            .buffer(y_)
            .size(y_.count())
            .size(positions_)
            .size(spatial_)
            .over(y_.count());
    }

    void gather_last() const {
        const std::int64_t chunk = chunk_planes();
        for (std::int64_t p = 0; p < planes_; p += chunk) {
            const std::int64_t some = std::min(chunk, planes_ - p), entries = some * positions_, keys = some * spatial_;
            const gpu::Buckets buckets = sorted(p, entries, keys);
            start("gather_last")
                .constant("E", carrier(y_.dtype))
                .buffer(part(values_.view(), p * spatial_))
                .buffer(buckets.keys)
                .buffer(buckets.entries)
                .buffer(part(y_, p * positions_))
                .size(entries)
                .size(keys)
                .over(entries);
        }
    }

private:
    static constexpr std::int64_t far = std::int64_t{1} << 30;

    gpu::Launch start(const char* entry) const { return launch(call_, kernels::pool_planes, entry); }
    std::int64_t chunk_planes() const {
        return std::max<std::int64_t>(1, most_entries / std::max<std::int64_t>(1, std::max(positions_, spatial_)));
    }
    static const std::byte* part(const View& v, std::int64_t offset) {
        return v.as<const std::byte>() + offset * size_of(v.dtype);
    }
    /// The entries of planes from p on, sorted by key.
    gpu::Buckets sorted(std::int64_t p, std::int64_t entries, std::int64_t keys) const {
        const Ref<Storage> memory = graph::scratch(call_, std::max<std::int64_t>(1, entries) * 4);
        start("keys")
            .constant("I", indices_.view().dtype)
            .buffer(part(indices_.view(), p * positions_))
            .buffer(memory)
            .size(entries)
            .size(positions_)
            .size(spatial_)
            .size(keys)
            .over(entries);
        return gpu::make_buckets(call_.backend, memory, entries, keys, {call_.operation, call_.where});
    }
    std::int64_t index_at(std::int64_t position) const {
        const View& v = indices_.view();
        std::int64_t bits = 0;
        const std::int64_t size = size_of(v.dtype);
        call_.backend.stream().copy_to_host(&bits, part(v, position), size);
        if (!is_signed_integer(v.dtype) || size == 8) return bits;
        const auto unused = static_cast<unsigned>(64 - 8 * size);
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(bits) << unused) >> unused;
    }

    const graph::Call& call_;
    Dense values_, indices_;
    const View& y_;
    std::int64_t planes_ = 0, positions_ = 0, spatial_ = 0;
};

}  // namespace

void planes_on_gpu(PlaneKind kind, const graph::Call& call) {
    const bool scatters = kind == PlaneKind::add || kind == PlaneKind::set;
    const Planes planes(call, scatters);
    if (kind == PlaneKind::set) planes.check();
    if (call.outputs[0].count() == 0) return;
    switch (kind) {
        case PlaneKind::add: return planes.scatter(false);
        case PlaneKind::set: return planes.scatter(true);
        case PlaneKind::gather: return planes.gather();
        case PlaneKind::gather_last: return planes.gather_last();
    }
}

}  // namespace ops::pool
}  // namespace calor
