// Batched matmul through oneDNN: batch axes merge as far as strides allow (into the rows, when b is the same for all),
// a result that lies transposed becomes the product of the transposed operands, and what oneDNN cannot read where it
// lies (f16, bf16, no unit stride, repeated or reversed rows) is copied to f32, in pieces of bounded size.
#include <limits>

#include "device/cpu/onednn_cache.h"
#include "device/cpu/pack.h"
#include "device/cpu/scratch.h"

namespace calor::cpu::onednn {
namespace {

using dnnl::memory;

constexpr std::int64_t piece_elements = 1 << 23;  // f32 copies of a and c together: 32 MiB
constexpr std::int64_t piece_rows = 512;
constexpr std::int64_t cached_elements = 1 << 20;  // copies of a part of a batch that stay in the cache

/// A matrix, or a batch of them. Batch strides of 0 repeat it. Strides are in elements.
struct Matrix {
    char* data = nullptr;
    DType dtype = f32;
    Dims batch;  ///< strides of the batch axes
    std::int64_t row = 0, column = 0;
};

struct Problem {
    Dims batch;  ///< sizes
    std::int64_t m = 0, n = 0, k = 0;
    Matrix a, b, c;
    const View* bias = nullptr;
    bool relu = false;
};

Matrix matrix_of(const View& v, const Dims& batch) {
    const std::int64_t rank = v.shape->rank();
    Matrix m{static_cast<char*>(v.data), v.dtype, {}, (*v.strides)[rank - 2], (*v.strides)[rank - 1]};
    for (std::int64_t i = 0; i < rank - 2; ++i)
        if (batch[i] != 1) m.batch.push_back((*v.shape)[i] == 1 ? 0 : (*v.strides)[i]);
    return m;
}

/// Merges batch axes that lie alike in all three arrays, then those that a and c can count as more rows.
void merge_batch(Problem& p) {
    for (std::int64_t i = p.batch.rank() - 1; i > 0; --i) {
        bool merges = true;
        for (const Matrix* m : {&p.a, &p.b, &p.c}) merges &= m->batch[i - 1] == m->batch[i] * p.batch[i];
        if (!merges) continue;
        p.batch[i - 1] *= p.batch[i];
        p.batch.erase(i);
        for (Matrix* m : {&p.a, &p.b, &p.c}) m->batch.erase(i - 1);
    }
    while (!p.batch.empty() && p.b.batch.back() == 0) {
        const auto follows = [&](const Matrix& m) { return m.batch.back() == m.row * p.m || p.m == 1; };
        if (!follows(p.a) || !follows(p.c)) break;
        if (p.m == 1) {
            p.a.row = p.a.batch.back();
            p.c.row = p.c.batch.back();
        }
        p.m *= p.batch.back();
        p.batch.erase(p.batch.rank() - 1);
        for (Matrix* m : {&p.a, &p.b, &p.c}) m->batch.erase(m->batch.rank() - 1);
    }
}

/// Strides of a single row or column are free: makes them what oneDNN likes.
void tidy(Matrix& m, std::int64_t rows, std::int64_t columns) {
    if (columns == 1) m.column = 1;
    if (rows == 1) m.row = m.column == 1 ? columns : 1;
}

/// Whether oneDNN's GEMM takes the array as it lies. A result has to have contiguous rows.
bool readable(const Matrix& m, std::int64_t rows, std::int64_t columns, const Dims& batch, bool output) {
    if (m.dtype != f32) return false;
    if (!(m.column == 1 && m.row >= columns) && (output || !(m.row == 1 && m.column >= rows))) return false;
    Dims sizes, strides;
    for (std::int64_t i = 0; i < batch.rank(); ++i) {
        if (m.batch[i] == 0) continue;
        sizes.push_back(batch[i]);
        strides.push_back(m.batch[i]);
    }
    for (const std::int64_t d : {rows, columns}) sizes.push_back(d);
    for (const std::int64_t d : {m.row, m.column}) strides.push_back(d);
    return is_regular(sizes, strides);
}

memory::desc describe(const Matrix& m, std::int64_t rows, std::int64_t columns, const Dims& batch) {
    memory::dims dims, strides;
    std::int64_t extent = std::max(rows * m.row, columns * m.column);
    for (std::int64_t i = 0; i < batch.rank(); ++i) extent = std::max(extent, batch[i] * m.batch[i]);
    for (std::int64_t i = 0; i < batch.rank(); ++i) {
        dims.push_back(m.batch[i] == 0 ? 1 : batch[i]);
        strides.push_back(m.batch[i] == 0 ? extent : m.batch[i]);
    }
    dims.insert(dims.end(), {rows, columns});
    strides.insert(strides.end(), {m.row, m.column});
    return {dims, memory::data_type::f32, strides};
}

Plan build(const Problem& p) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.relu) {
        dnnl::post_ops post;
        post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
        attr.set_post_ops(post);
    }
    const memory::desc a = describe(p.a, p.m, p.k, p.batch), b = describe(p.b, p.k, p.n, p.batch);
    const memory::desc c = describe(p.c, p.m, p.n, p.batch);
    memory::dims bias_dims(p.batch.size() + 1, 1), bias_strides(p.batch.size() + 1, p.n);
    bias_dims.push_back(p.n);
    bias_strides.push_back(1);
    const memory::desc bias(bias_dims, memory::data_type::f32, bias_strides);
    const dnnl::matmul::desc desc = p.bias != nullptr ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc pd(desc, attr, engine(), true);
    Plan plan;
    if (!pd.get(true)) {
        plan.refusal = "oneDNN does not take these strides";
        return plan;
    }
    plan.primitive = dnnl::matmul(pd);
    plan.add_operand(DNNL_ARG_SRC, 0, false, a, a);
    plan.add_operand(DNNL_ARG_WEIGHTS, 1, false, b, b);
    plan.add_operand(DNNL_ARG_DST, 2, true, c, c);
    if (p.bias != nullptr) plan.add_operand(DNNL_ARG_BIAS, 3, false, bias, bias);
    plan.finish(pd.scratchpad_desc());
    plan.description = pd.impl_info_str();
    return plan;
}

/// Everything readable: runs it.
void run_direct(const Problem& p, float* bias) {
    Key key;
    key.add(1024 + p.relu + 2 * (p.bias != nullptr) + 4 * p.batch.rank());
    key.add(thread_count());
    for (const std::int64_t d : {p.m, p.n, p.k}) key.add(d);
    key.add(p.batch);
    for (const Matrix* m : {&p.a, &p.b, &p.c}) {
        key.add(m->batch);
        key.add(m->row);
        key.add(m->column);
    }
    const auto plan = cached_plan(key, [&] { return build(p); });
    if (plan->refusal != nullptr) throw std::runtime_error(std::string("oneDNN matmul: ") + plan->refusal);
    execute(*plan, {p.a.data, p.b.data, p.c.data, bias});
}

/// A dense f32 stand-in for a matrix, repeated batch axes stored once.
class Staged {
public:
    Staged(Matrix& m, std::int64_t rows, std::int64_t columns, const Dims& batch, bool output) {
        if (readable(m, rows, columns, batch, output)) return;
        for (std::int64_t i = 0; i < batch.rank(); ++i) {
            shape_.push_back(m.batch[i] == 0 ? 1 : batch[i]);
            outer_.push_back(m.batch[i]);
        }
        for (const std::int64_t d : {rows, columns}) shape_.push_back(d);
        for (const std::int64_t d : {m.row, m.column}) outer_.push_back(d);
        // The matrix stays transposed when it was; batch axes lie outside of it in any case.
        const bool transposed = !output && rows != 1 && std::abs(m.row) < std::abs(m.column);
        std::int64_t step = rows * columns;
        inner_ = Dims(shape_.rank(), 1);
        for (std::int64_t i = batch.rank(); i-- > 0;) {
            inner_[i] = step;
            step *= shape_[i];
        }
        inner_[batch.rank() + (transposed ? 1 : 0)] = transposed ? rows : columns;
        copy_ = Scratch(step * size_of(f32));
        view_ = {m.data, m.dtype, &shape_, &outer_};
        if (!output) pack(view_, copy_.floats(), inner_);
        m.data = copy_.bytes();
        m.dtype = f32;
        for (std::int64_t i = 0; i < batch.rank(); ++i) m.batch[i] = m.batch[i] == 0 ? 0 : inner_[i];
        m.row = inner_[batch.rank()];
        m.column = inner_[batch.rank() + 1];
    }
    Staged(const Staged&) = delete;
    Staged& operator=(const Staged&) = delete;
    void give_back() const {
        if (copy_.floats() != nullptr) unpack(copy_.floats(), inner_, view_);
    }

private:
    Shape shape_;
    Strides outer_, inner_;
    View view_;
    Scratch copy_;
};

void advance(Matrix& m, std::int64_t elements) { m.data += elements * size_of(m.dtype); }

void run_staged(Problem p, float* bias) {
    Staged a(p.a, p.m, p.k, p.batch, false), b(p.b, p.k, p.n, p.batch, false), c(p.c, p.m, p.n, p.batch, true);
    run_direct(p, bias);
    c.give_back();
}

/// `part` products of a batch at a time.
void run_batch_in_parts(Problem p, std::int64_t part, float* bias) {
    for (std::int64_t rest = p.batch[0]; rest > 0; rest -= part) {
        p.batch[0] = std::min(part, rest);
        run_staged(p, bias);
        for (Matrix* m : {&p.a, &p.b, &p.c}) advance(*m, part * m->batch[0]);
    }
}

/// Runs a problem, cutting it along the batch or the rows while its f32 copies would be large.
void run_pieces(Problem p, float* bias) {
    const bool copies = !readable(p.a, p.m, p.k, p.batch, false) || !readable(p.c, p.m, p.n, p.batch, true);
    std::int64_t outer = 1;
    for (const std::int64_t d : p.batch) outer *= d;
    if (copies && outer * p.m * (p.k + p.n) > piece_elements) {
        if (!p.batch.empty()) {
            const std::int64_t count = p.batch[0];
            p.batch.erase(0);
            std::array<std::int64_t, 3> steps{};
            std::size_t slot = 0;
            for (Matrix* m : {&p.a, &p.b, &p.c}) {
                steps[slot++] = m->batch[0];
                m->batch.erase(0);
            }
            for (std::int64_t i = 0; i < count; ++i) {
                run_pieces(p, bias);
                slot = 0;
                for (Matrix* m : {&p.a, &p.b, &p.c}) advance(*m, steps[slot++]);
            }
            return;
        }
        if (p.m >= 2 * piece_rows) {
            Staged b(p.b, p.k, p.n, p.batch, false);  // once for all pieces
            Problem piece = p;
            const std::int64_t rows = std::max(piece_rows, piece_elements / (p.k + p.n));
            for (std::int64_t begin = 0; begin < p.m; begin += rows) {
                piece.m = std::min(rows, p.m - begin);
                Problem part = piece;
                Staged a(part.a, part.m, part.k, part.batch, false), c(part.c, part.m, part.n, part.batch, true);
                run_direct(part, bias);
                c.give_back();
                advance(piece.a, piece.m * piece.a.row);
                advance(piece.c, piece.m * piece.c.row);
            }
            return;
        }
    }
    if (copies && p.batch.rank() == 1 && p.b.batch[0] != 0) {
        const std::int64_t part =
            cached_elements / (p.m * p.k + p.k * p.n + p.m * p.n) / thread_count() * thread_count();
        if (part > 0 && part < p.batch[0]) return run_batch_in_parts(p, part, bias);
    }
    run_staged(p, bias);
}

const char* check_operand(const View& v, const View& c, std::int64_t rows, std::int64_t columns) {
    const std::int64_t rank = c.shape->rank();
    if (v.shape->rank() != rank || v.strides->rank() != rank) return "operands of different ranks";
    if (v.dtype != c.dtype) return "operands of different dtypes";
    if ((*v.shape)[rank - 2] != rows || (*v.shape)[rank - 1] != columns) return "shapes do not fit";
    for (std::int64_t i = 0; i < rank - 2; ++i)
        if ((*v.shape)[i] != (*c.shape)[i] && (*v.shape)[i] != 1) return "batch axes do not fit";
    return nullptr;
}

}  // namespace

const char* matmul_why_not(const View& a, const View& b, const View* bias, const View& c) {
    const std::int64_t rank = c.shape->rank();
    if (rank < 2 || a.shape->rank() != rank) return "fewer than two axes, or operands of different ranks";
    if (rank > 10) return "more than 8 batch axes";
    if (c.dtype != f32 && c.dtype != bf16 && c.dtype != f16) return "dtypes other than f32, bf16 and f16";
    const std::int64_t m = (*c.shape)[rank - 2], n = (*c.shape)[rank - 1], k = (*a.shape)[rank - 1];
    if (const char* reason = check_operand(a, c, m, k)) return reason;
    if (const char* reason = check_operand(b, c, k, n)) return reason;
    if (const char* reason = check_operand(c, c, m, n)) return reason;
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    if (k <= 0) return "an axis of size 0";
    if (k > limit) return "sizes beyond 32 bits";
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i < rank - 1; ++i) {
        const std::int64_t d = (*c.shape)[i];
        if (d <= 0) return "an axis of size 0";
        if (d > limit / rows) return "sizes beyond 32 bits";  // batch and rows may merge
        rows *= d;
    }
    if (n <= 0) return "an axis of size 0";
    if (n > limit) return "sizes beyond 32 bits";
    if (bias != nullptr) {
        if (bias->shape->rank() != 1 || (*bias->shape)[0] != n) return "a bias of the wrong size";
        if (bias->dtype != c.dtype) return "operands of different dtypes";
    }
    if (!is_regular(*c.shape, *c.strides)) return "an output that overlaps itself";
    return nullptr;
}

void matmul(const View& a, const View& b, const View* bias, const View& c, bool relu) {
    if (const char* reason = matmul_why_not(a, b, bias, c))
        throw std::runtime_error(std::string("oneDNN matmul: ") + reason);
    const std::int64_t rank = c.shape->rank();
    Problem p{{}, (*c.shape)[rank - 2], (*c.shape)[rank - 1], (*a.shape)[rank - 1], {}, {}, {}, bias, relu};
    Dims batch;
    for (std::int64_t i = 0; i < rank - 2; ++i) batch.push_back((*c.shape)[i]);
    p.a = matrix_of(a, batch);
    p.b = matrix_of(b, batch);
    p.c = matrix_of(c, batch);
    for (const std::int64_t d : batch)
        if (d != 1) p.batch.push_back(d);
    merge_batch(p);
    tidy(p.a, p.m, p.k);
    tidy(p.b, p.k, p.n);
    tidy(p.c, p.m, p.n);
    if (p.c.column != 1 && p.c.row == 1 && bias == nullptr) {  // c' = b' a'
        std::swap(p.a, p.b);
        std::swap(p.m, p.n);
        for (Matrix* m : {&p.a, &p.b, &p.c}) std::swap(m->row, m->column);
    }
    guarded([&] {
        float* ready = nullptr;
        Scratch copy;
        if (bias != nullptr) {
            ready = static_cast<float*>(bias->data);
            if (bias->dtype != f32 || ((*bias->strides)[0] != 1 && p.n != 1)) {
                copy = Scratch(p.n * size_of(f32));
                pack(*bias, copy.floats(), Strides{1});
                ready = copy.floats();
            }
        }
        run_pieces(p, ready);
    });
}

}  // namespace calor::cpu::onednn
