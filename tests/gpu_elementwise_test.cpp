// Fused elementwise programs on GPUs against the CPU: every row of the table in every dtype, all 169 casts, random
// graphs, and every way to reach an operand.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gpu_check.h"
#include "graph/node.h"
#include "ops/elementwise/row.h"

namespace ca = calor;
using ca::Device;
using ca::DType;
using ca::Shape;
using ca::Strides;
using ca::Tensor;
using ca::View;
using ca::testing::gpu_of;
using ca::testing::gpus;
using ca::testing::host;

namespace {

constexpr DType all_types[] = {ca::f64, ca::f32, ca::f16, ca::bf16, ca::i64, ca::i32,    ca::i16,
                               ca::i8,  ca::u64, ca::u32, ca::u16,  ca::u8,  ca::boolean};
const ca::Where here = ca::Where::current();

/// Runs a program whose operands are dense and gives the bytes of each output.
std::vector<std::vector<std::byte>> run(Device device, const ca::ElementwiseProgram& program,
                                        const std::vector<std::vector<std::byte>>& inputs) {
    ca::Backend& backend = ca::backend(device);
    const std::int64_t n = program.shape[0];
    const Strides dense{1};
    std::vector<ca::Ref<ca::Storage>> memory;
    std::vector<View> in, out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        memory.push_back(backend.allocate(std::ssize(inputs[i]), "test", here));
        backend.stream().copy_to_device(memory.back()->data, inputs[i].data(), std::ssize(inputs[i]));
        in.push_back({memory.back()->data, program.inputs[i], &program.shape, &dense});
    }
    for (const int o : program.outputs) {
        const DType t = program.steps[static_cast<std::size_t>(o) - inputs.size()].result;
        memory.push_back(backend.allocate(n * ca::size_of(t), "test", here));
        out.push_back({memory.back()->data, t, &program.shape, &dense});
    }
    backend.run(program, in, out, here);
    std::vector<std::vector<std::byte>> results;
    for (const View& v : out) {
        results.emplace_back(static_cast<std::size_t>(n * ca::size_of(v.dtype)));
        backend.stream().copy_to_host(results.back().data(), v.data, std::ssize(results.back()));
    }
    return results;
}

double number_at(DType t, const std::vector<std::byte>& bytes, std::size_t i) {
    const auto as = [&]<class T>(T value) {
        std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
        return static_cast<double>(value);
    };
    switch (t) {
        case ca::f64: return as(double{});
        case ca::f32: return as(float{});
        case ca::f16: return as(ca::float16{});
        case ca::bf16: return as(ca::bfloat16{});
        case ca::i64: return as(std::int64_t{});
        case ca::i32: return as(std::int32_t{});
        case ca::i16: return as(std::int16_t{});
        case ca::i8: return as(std::int8_t{});
        case ca::u64: return as(std::uint64_t{});
        case ca::u32: return as(std::uint32_t{});
        case ca::u16: return as(std::uint16_t{});
        default: return as(std::uint8_t{});
    }
}
void put(DType t, std::vector<std::byte>& bytes, double x) {
    const auto add = [&](auto value) {
        const auto* first = reinterpret_cast<const std::byte*>(&value);
        bytes.insert(bytes.end(), first, first + sizeof value);
    };
    const auto whole = static_cast<std::int64_t>(x);
    switch (t) {
        case ca::f64: return add(x);
        case ca::f32: return add(static_cast<float>(x));
        case ca::f16: return add(ca::float16(static_cast<float>(x)));
        case ca::bf16: return add(ca::bfloat16(static_cast<float>(x)));
        case ca::i64:
        case ca::u64: return add(whole);
        case ca::i32:
        case ca::u32: return add(static_cast<std::int32_t>(whole));
        case ca::i16:
        case ca::u16: return add(static_cast<std::int16_t>(whole));
        case ca::boolean: return add(static_cast<std::uint8_t>(x != 0));
        default: return add(static_cast<std::int8_t>(whole));
    }
}

/// Arguments of a row: its domain, wider ones, and the corners of the dtype.
std::vector<std::byte> arguments(DType t, double low, double high, std::mt19937& random, std::size_t count) {
    std::vector<std::byte> bytes;
    std::uniform_real_distribution<double> inside(low, high), wide(-20, 20);
    const double corners[] = {0, -0.0, 1, -1, 0.5, -0.5, 2, 3, 1e-3, -1e-3, 40, -40, INFINITY, -INFINITY, NAN};
    const double whole_corners[] = {
        0, 1, -1, 2, -2, 7, 127, -128, 255, 32767, -32768, 65535, 2147483647.0, -2147483648.0, -9223372036854775808.0};
    for (std::size_t i = 0; i < count; ++i) {
        const bool corner = i % 4 == 0;
        if (ca::is_floating(t)) {
            put(t, bytes, corner ? corners[random() % std::size(corners)] : i % 4 == 1 ? wide(random) : inside(random));
        } else {
            put(t, bytes, corner ? whole_corners[random() % std::size(whole_corners)] : std::floor(inside(random) * 5));
        }
    }
    return bytes;
}

bool takes(const ca::ops::Row& row, DType t) {
    const auto& op = ca::ops::elementwise_operation(row.name);
    return op.row->kernel(op.row->name, ca::compute_type(t)) != nullptr &&
           (row.name.starts_with("nextafter_") ? row.name.ends_with(ca::name_of(t)) : true);
}

/// Functions whose f32 or f64 versions of OpenCL and CUDA are allowed some units in the last place, and how many.
double allowed_ulps(std::string_view name, DType t) {
    const bool wide = t == ca::f64;
    constexpr std::string_view exact[] = {"add",   "sub",   "mul",        "div",     "neg",        "abs",      "sign",
                                          "floor", "ceil",  "round",      "trunc",   "reciprocal", "square",   "sqrt",
                                          "fmod",  "clamp", "remainder",  "minimum", "maximum",    "copysign", "where",
                                          "relu",  "relu6", "leaky_relu", "prelu",   "hardtanh",   "softsign", "lerp"};
    if (std::ranges::find(exact, name) != std::end(exact)) return 0;
    if (name == "polygamma" || name == "trigamma" || name == "digamma" || name == "lgamma") return wide ? 64 : 8;
    if (name == "pow" || name == "logaddexp" || name == "xlogy") return 32;
    return 16;
}

void expect_close(std::string_view name, DType t, const std::vector<std::byte>& got, const std::vector<std::byte>& want,
                  double ulps, const std::string& device) {
    int wrong = 0;
    for (std::size_t i = 0; i * static_cast<std::size_t>(ca::size_of(t)) < want.size() && wrong < 4; ++i) {
        const double g = number_at(t, got, i), w = number_at(t, want, i);
        if (g == w || (std::isnan(g) && std::isnan(w))) continue;
        const double digits = t == ca::f64 ? 0x1p-52 : t == ca::f32 ? 0x1p-23 : t == ca::f16 ? 0x1p-10 : 0x1p-7;
        const double least = t == ca::f64 ? 0x1p-1022 : t == ca::f16 ? 0x1p-14 : 0x1p-126;
        const double terms = name == "gelu_slope" ? 0.25 : least;          // which cancel near its root
        const double limit = ca::is_half(t) ? (ulps == 0 ? 0 : 1) : ulps;  // computed in f32, rounded once
        if (ca::is_floating(t) && std::abs(g - w) <= limit * digits * std::max(std::abs(w), terms)) continue;
        ++wrong;
        ADD_FAILURE() << name << " of " << ca::name_of(t) << " on " << device << ", element " << i << ": " << g
                      << " for the CPU's " << w;
    }
}

TEST(GpuElementwise, EveryRowInEveryDtype) {
    constexpr std::size_t count = 203, rows_a_program = 12;
    for (const DType t : all_types) {
        std::mt19937 random(1);
        std::vector<const ca::ops::Row*> rows;
        for (const auto& row : ca::ops::elementwise_rows()) {
            EXPECT_NE(row.text, nullptr) << row.name;
            if (takes(row, t)) rows.push_back(&row);
        }
        for (std::size_t first = 0; first < rows.size(); first += rows_a_program) {
            ca::ElementwiseProgram program;
            program.shape = {static_cast<std::int64_t>(count)};
            std::vector<std::vector<std::byte>> inputs;
            std::vector<const ca::ops::Row*> chosen;
            for (std::size_t r = first; r < std::min(rows.size(), first + rows_a_program); ++r) {
                const auto& row = *rows[r];
                ca::ElementwiseStep step;
                step.traits = ca::ops::elementwise_operation(row.name).row;
                step.operand = t;
                step.result = row.gives == ca::ops::Gives::boolean ? ca::boolean : t;
                for (int k = 0; k < row.arity; ++k) {
                    const DType of = row.name == "where" && k == 0 ? ca::boolean : t;
                    step.inputs[k] = static_cast<int>(inputs.size());
                    inputs.push_back(arguments(of, row.low, row.high, random, count));
                    program.inputs.push_back(of);
                }
                for (int k = 0; k < 3; ++k) step.params[k] = row.parameters[k].sample;
                program.steps.push_back(step);
                chosen.push_back(&row);
            }
            for (auto& step : program.steps)
                program.outputs.push_back(
                    static_cast<int>(inputs.size() + static_cast<std::size_t>(&step - program.steps.data())));
            const auto want = run(host, program, inputs);
            for (const Device d : gpus()) {
                if (t == ca::f64 && !gpu_of(d).traits().f64) continue;
                const auto got = run(d, program, inputs);
                for (std::size_t r = 0; r < chosen.size(); ++r) {
                    expect_close(chosen[r]->name, program.steps[r].result, got[r], want[r],
                                 allowed_ulps(chosen[r]->name, t), ca::to_string(d));
                }
            }
        }
    }
}

TEST(GpuElementwise, EveryCast) {
    for (const DType from : all_types) {
        const Tensor probe = ca::ones({1}).to(host).to(from == ca::i8 ? ca::u8 : ca::i8);
        const auto* traits = probe.node()->operation->row;
        std::mt19937 random(2);
        ca::ElementwiseProgram program;
        program.shape = {301};
        program.inputs = {from};
        std::vector<std::byte> values;
        if (ca::is_floating(from)) {
            std::uniform_real_distribution<double> exponent(-30, 70), sign(-1, 1);
            const double corners[] = {0,
                                      -0.0,
                                      NAN,
                                      INFINITY,
                                      -INFINITY,
                                      127.5,
                                      -128.5,
                                      255.9,
                                      65504,
                                      65520,
                                      1e-8,
                                      2147483647.5,
                                      4294967296.0,
                                      9.3e18,
                                      1.9e19,
                                      -9.3e18,
                                      1 + 0x1p-11 + 0x1p-40,
                                      3e38};
            for (int i = 0; i < 301; ++i) {
                put(from, values, i < 18 ? corners[i] : std::exp2(exponent(random)) * sign(random));
            }
        } else {
            for (int i = 0; i < 301; ++i) {
                const auto bits =
                    static_cast<std::int64_t>((std::uint64_t{random()} << 32 | random()) >> (random() % 64));
                put(from, values, 0);
                std::memcpy(values.data() + values.size() - static_cast<std::size_t>(ca::size_of(from)), &bits,
                            static_cast<std::size_t>(ca::size_of(from)));
                if (from == ca::boolean) values.back() = static_cast<std::byte>(bits & 1);
            }
        }
        std::vector<DType> targets;
        for (const DType to : all_types) {
            ca::ElementwiseStep step;
            step.traits = traits;
            step.operand = from;
            step.result = to;
            step.round = ca::is_half(to);
            step.inputs[0] = 0;
            program.outputs.push_back(static_cast<int>(1 + program.steps.size()));
            program.steps.push_back(step);
        }
        const auto want = run(host, program, {values});
        for (const Device d : gpus()) {
            if (!gpu_of(d).traits().f64) continue;
            const auto got = run(d, program, {values});
            for (std::size_t k = 0; k < std::size(all_types); ++k) {
                expect_close(std::string("cast from ") + std::string(ca::name_of(from)), all_types[k], got[k], want[k],
                             0, ca::to_string(d));
            }
        }
    }
}

/// Fused chains of exact operations: the same bits as on the CPU, whatever the shapes and layouts.
TEST(GpuElementwise, RandomGraphs) {
    for (const Device d : gpus()) {
        for (int seed = 0; seed < 6; ++seed) {
            std::mt19937 random(static_cast<unsigned>(seed));
            const DType t = std::vector{ca::f32, ca::bf16, ca::i32, ca::f16}[static_cast<std::size_t>(seed % 4)];
            const Shape shape = std::vector<Shape>{{7, 12}, {3, 1, 16}, {5, 4, 3}, {64}}[random() % 4];
            std::vector<Tensor> here_values, there;
            for (int i = 0; i < 3; ++i) {
                Shape s = shape;
                if (i > 0) s[static_cast<std::int64_t>(random() % static_cast<std::size_t>(s.rank()))] = 1;
                std::vector<float> v(static_cast<std::size_t>(ca::numel(s)));
                for (float& x : v) x = static_cast<float>(random() % 17) - 8;
                here_values.push_back(ca::from_host(v.data(), std::ssize(v), ca::f32, s, host).to(t).eval());
                there.push_back(here_values.back().to(d).eval());
            }
            const auto grow = [&](std::vector<Tensor> pool, unsigned seed_of_steps) {
                std::mt19937 steps(seed_of_steps);
                for (int k = 0; k < 10; ++k) {
                    const Tensor a = pool[steps() % pool.size()], b = pool[steps() % pool.size()];
                    switch (steps() % 6) {
                        case 0: pool.push_back(a + b); break;
                        case 1: pool.push_back(a - b * 2); break;
                        case 2: pool.push_back(ca::maximum(a, b)); break;
                        case 3: pool.push_back(ca::where(ca::gt(a, b), a, -b)); break;
                        case 4: pool.push_back(ca::clamp(a, -20, 20)); break;
                        default: pool.push_back(ca::abs(a) + 1);
                    }
                }
                ca::eval({pool[pool.size() - 1], pool[pool.size() - 2]});
                return pool;
            };
            const auto want = grow(here_values, static_cast<unsigned>(seed)),
                       got = grow(there, static_cast<unsigned>(seed));
            for (std::size_t k = want.size() - 2; k < want.size(); ++k) {
                EXPECT_EQ(ca::testing::doubles(got[k]), ca::testing::doubles(want[k])) << seed << ", value " << k;
            }
        }
    }
}

TEST(GpuElementwise, EveryWayToReachAnOperand) {
    for (const Device d : gpus()) {
        const Tensor x = ca::reshape(ca::testing::numbers(2 * 8 * 12 * 16), {2, 8, 12, 16}).eval();
        const Tensor y = x.to(d).eval();
        const auto same = [&](auto f) { EXPECT_EQ(ca::testing::doubles(f(y)), ca::testing::doubles(f(x))); };
        same([](const Tensor& t) { return t + ca::slice(t, 1, {0, 1}); });  // [2, 1, 12, 16]
        same([](const Tensor& t) { return t * ca::slice(t, 3, {3, 4}); });  // a constant along rows
        same([](const Tensor& t) { return t - ca::slice(ca::slice(t, 0, {0, 1}), 2, {5, 6}); });
        same([](const Tensor& t) { return ca::slice(t, 3, {1, 9}) * 2; });  // rows off their alignment
        same([](const Tensor& t) { return ca::slice(t, 3, {0, 15, 2}) + ca::slice(t, 3, {4, 12}); });
        same([](const Tensor& t) { return ca::permute(t, {0, 2, 3, 1}) + 1; });  // channels-last results
        same([](const Tensor& t) { return ca::permute(t, {3, 2, 1, 0}) + ca::permute(t, {3, 2, 1, 0}); });
        same([](const Tensor& t) {
            return ca::permute(t, {1, 0, 2, 3}) - ca::slice(ca::permute(t, {1, 0, 2, 3}), 0, {0, 1});
        });
        same([](const Tensor& t) { return ca::flip(t, {3, 1}) + t; });
        same([](const Tensor& t) { return ca::slice(ca::reshape(t, {-1}), 0, {1, 3072}) + 1; });  // dense, off by one
        same([](const Tensor& t) { return ca::reshape(t, {-1, 3}) + ca::slice(ca::reshape(t, {-1, 3}), 0, {0, 1}); });
        same([](const Tensor& t) { return ca::select(ca::select(ca::select(t, 0, 1), 0, 2), 0, 3) * 3; });
        same([](const Tensor& t) { return ca::slice(t, 0, {0, 0}) + 1; });
    }
}

/// More results than the arguments of one launch may carry.
TEST(GpuElementwise, ManyResultsOfOneChain) {
    for (const Device d : gpus()) {
        const auto chain = [](Tensor x) {
            std::vector<Tensor> all;
            for (int i = 0; i < 46; ++i) all.push_back(x = x + 1);
            ca::eval({all.back()});
            return all;
        };
        const auto all = chain(ca::zeros({50}).to(d));
        for (std::size_t i = 0; i < all.size(); ++i)
            EXPECT_EQ(all[i].to_vector<float>()[49], static_cast<float>(i + 1));
    }
}

TEST(GpuElementwise, TwiceTheSameBitsAndGradients) {
    for (const Device d : gpus()) {
        const Tensor x = ca::tensor(std::vector<float>{0.3F, -1.2F, 2.5F}).to(host).to(d).requires_grad();
        const auto f = [&] { return ca::gelu(x) * ca::sigmoid(x) + ca::exp(x) / 3; };
        EXPECT_EQ(f().to_vector<float>(), f().to_vector<float>());
        const auto slope = [&](const Tensor& of) {
            return ca::gradients({f()}, {of}, {ca::ones_like(of)})[0].to_vector<float>();
        };
        const auto first = slope(x);
        const Tensor at_host = x.to(host).detach().requires_grad();
        const Tensor y = ca::gelu(at_host) * ca::sigmoid(at_host) + ca::exp(at_host) / 3;
        const auto want = ca::gradients({y}, {at_host}, {ca::ones_like(at_host)})[0].to_vector<float>();
        for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(first[i], want[i], 1e-6F);
    }
}

}  // namespace
