// Random numbers from Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as
// easy as 1, 2, 3; SC 2011). A number is a function of the seed, of the offset that the generator had when the
// operation was recorded, and of the element's row-major index: the same for any number of threads and any order of
// evaluation.
//
// The key is the seed; block b of an operation is the Philox output for the 128-bit counter offset + b (upper half 0),
// four words of 32 bits. Elements of up to 32 bits take one word each (element i: word i % 4 of block i / 4), f64 and
// integers two (element i: words 2 (i % 2) and 2 (i % 2) + 1 of block i / 2, the lower half first). An operation of n
// elements moves the offset on by the blocks that it needs, even when its value is never asked for.
#pragma once

#include <atomic>
#include <cstdint>

#include "calor/tensor.h"

namespace calor {

/// Where a sequence of random numbers comes from: a seed and a position. Recording from several threads is safe; who
/// comes first gets the earlier numbers, so threads that must be reproducible have a generator each.
class Generator {
public:
    struct State {
        std::uint64_t seed = 0;
        std::uint64_t offset = 0;  ///< blocks used so far
        friend bool operator==(const State&, const State&) = default;
    };
    explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
    explicit Generator(const State& state) : seed_(state.seed), offset_(state.offset) {}
    Generator(const Generator& other) : Generator(other.state()) {}
    Generator& operator=(const Generator& other) {
        set_state(other.state());
        return *this;
    }
    ~Generator() = default;

    /// Seed and position: all that a checkpoint has to keep for the same numbers to follow.
    State state() const { return {seed_.load(), offset_.load()}; }
    void set_state(const State& state) {
        seed_.store(state.seed);
        offset_.store(state.offset);
    }
    /// Starts anew.
    void seed(std::uint64_t value) { set_state({value, 0}); }
    /// A generator whose numbers have nothing to do with this one's: its seed is drawn from here.
    Generator fork();
    /// The current position, which then moves on by `blocks`.
    State reserve(std::uint64_t blocks) { return {seed_.load(), offset_.fetch_add(blocks)}; }

private:
    std::atomic<std::uint64_t> seed_;
    std::atomic<std::uint64_t> offset_{0};
};

/// The generator of every call that names none. It starts with seed 0: two runs of a program draw the same numbers.
Generator& default_generator();
/// Starts the default generator anew.
void manual_seed(std::uint64_t seed);

/// Numbers from [low, high), evenly. f32 has 24 random bits, f64 53, f16 11, bf16 8. Throws ValueError [value/option]
/// unless low <= high are finite and their distance fits in the dtype, DTypeError [dtype/unsupported] for integers.
Tensor uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = f32,
               Generator& generator = default_generator(), const Where& where = Where::current());

/// Normal (Gaussian) numbers by Box and Muller's method: two elements from a radius sqrt(-2 log u) and an angle.
/// Logarithm, sine and cosine are polynomials in IEEE operations without contraction, so every device gives the same
/// bits; f16 and bf16 are the f32 numbers rounded. Beyond 6.7 (f32) and 8.6 (f64) standard deviations there are none.
/// Throws ValueError [value/option] unless mean is finite and std is finite and at least 0, DTypeError
/// [dtype/unsupported].
Tensor normal(const Shape& shape, double mean = 0, double std = 1, DType dtype = f32,
              Generator& generator = default_generator(), const Where& where = Where::current());

/// Normal numbers that lie in [low, high], in units of the result (not of std): the inverse of the distribution
/// function at evenly spread points (Wichura's AS 241), computed in f64. Throws ValueError [value/option] unless low <
/// high and the interval has a probability above 1e-300; DTypeError [dtype/unsupported].
Tensor truncated_normal(const Shape& shape, double mean, double std, double low, double high, DType dtype = f32,
                        Generator& generator = default_generator(), const Where& where = Where::current());

/// One (true) with probability p, to 32 bits. Throws ValueError [value/option] unless p is in [0, 1].
Tensor bernoulli(double p, const Shape& shape, DType dtype = boolean, Generator& generator = default_generator(),
                 const Where& where = Where::current());
/// One with the probability that stands at each place of a floating tensor; the result has its shape and dtype and no
/// gradient. Throws DTypeError [dtype/unsupported] and, when evaluated, ValueError [value/option] for a probability
/// outside [0, 1].
Tensor bernoulli(const Tensor& p, Generator& generator = default_generator(), const Where& where = Where::current());

/// Integers from low to high - 1, evenly up to 2^-64 of the distance: low + the upper 64 bits of (64 random bits *
/// distance). Throws ValueError [value/option] unless low < high, [value/scalar] when the dtype can't hold them,
/// DTypeError [dtype/unsupported].
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = i64,
               Generator& generator = default_generator(), const Where& where = Where::current());

/// The numbers 0 to n - 1 in random order: the order of n random 64-bit keys. Throws [shape/negative], [value/scalar]
/// when the dtype can't hold n - 1.
Tensor permutation(std::int64_t n, DType dtype = i64, Generator& generator = default_generator(),
                   const Where& where = Where::current());

}  // namespace calor
