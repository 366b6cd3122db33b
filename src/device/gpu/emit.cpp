#include "device/gpu/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace calor::gpu {
namespace {

std::string type_of(DType t) { return std::string(kernel_name_of(compute_type(t))); }

/// Calls `word` for each identifier of a text and puts its answer in place.
template <class F> std::string with_words(std::string_view text, const F& word) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const auto letter = [&](std::size_t k) {
            return k < text.size() && (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_');
        };
        if (!letter(i)) {
            out += text[i++];
            continue;
        }
        std::size_t end = i;
        while (letter(end)) ++end;
        out += word(text.substr(i, end - i));
        i = end;
    }
    return out;
}

std::string value_name(int v) { return "v" + std::to_string(v); }
std::string parameter_name(std::size_t step, int index) { return fmt::format("s{}p{}", step, index); }

/// The expression of a step over the names of its operands.
std::string expression(const ElementwiseProgram& program, std::size_t index) {
    const ElementwiseStep& step = program.steps[index];
    if (step.traits->cast) {
        return cast_expression(compute_type(step.operand), step.result, value_name(step.inputs[0]));
    }
    return with_words(step.traits->text, [&](std::string_view w) -> std::string {
        if (w.size() == 1 && w[0] >= 'a' && w[0] <= 'c') return value_name(step.inputs[w[0] - 'a']);
        if (w.size() == 2 && w[0] == 'p' && w[1] >= '0' && w[1] <= '3') return parameter_name(index, w[1] - '0');
        if (w.starts_with("calor_")) return std::string(w) + "_" + type_of(step.operand);
        return std::string(w);
    });
}

class Emitter {
public:
    Emitter(const ElementwiseProgram& program, const EmitPlan& plan) : program_(program), plan_(plan) {}

    std::string run() {
        if (plan_.vector > 1) declare_vectors();
        head();
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            if (plan_.access[i] == Access::constant) {
                line("    const {} {} = LOAD({}, in{}, 0);", type_of(program_.inputs[i]), value_name(int(i)),
                     kernel_name_of(program_.inputs[i]), i);
            }
        }
        if (plan_.vector > 1) {
            vector_body();
        } else {
            line("    FOR_EACH(at, count) {{");
            offsets();
            scalar_body();
            line("    }}");
        }
        line("}}");
        return text_;
    }

private:
    template <class... T> void line(fmt::format_string<T...> format, T&&... values) {
        text_ += fmt::format(format, std::forward<T>(values)...);
        text_ += '\n';
    }

    void declare_vectors() {
        std::vector<DType> seen;
        const auto declare = [&](DType t) {
            if (std::ranges::find(seen, t) != seen.end()) return;
            seen.push_back(t);
            line("VECTOR(vector_{0}, {0}, {1});", kernel_name_of(t), plan_.vector);
        };
        for (const DType t : program_.inputs) declare(t);
        for (const int o : program_.outputs) declare(result_of(o));
    }

    DType result_of(int value) const {
        return program_.steps[static_cast<std::size_t>(value) - program_.inputs.size()].result;
    }

    void head() {
        std::string list;
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            list += fmt::format(", INOUT({}, in{})", kernel_name_of(program_.inputs[i]), i);
        }
        for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
            list += fmt::format(", INOUT({}, out{})", kernel_name_of(result_of(program_.outputs[o])), o);
        }
        list += ", SIZE(count)";
        for (const UsedParameter& p : program_parameters(program_)) {
            list += fmt::format(", VALUE({}, {})", type_of(p.dtype), parameter_name(p.step, p.index));
        }
        if (!plan_.flat) {
            const auto operands = std::ranges::count_if(plan_.access, needs_layout);
            list += fmt::format(", LAYOUT({}, {}, l)", plan_.walk.sizes.rank(), operands);
        }
        line("KERNEL(fused{}) {{", list);
    }

    /// Offsets of the inputs that are not in the order of the results; `at` is the first element.
    void offsets() {
        if (plan_.flat) return;
        int operand = 0;
        for (std::size_t i = 0; i < plan_.access.size(); ++i) {
            if (needs_layout(plan_.access[i])) line("        INDEX o{} = 0;", i);
        }
        line("        INDEX left = at, index;");
        for (std::int64_t a = plan_.walk.sizes.rank() - 1; a >= 0; --a) {
            if (a > 0) {
                line("        SPLIT_INDEX(l, {}, left, index);", a);
            } else {
                line("        index = left;");
            }
            operand = 0;
            for (std::size_t i = 0; i < plan_.access.size(); ++i) {
                if (needs_layout(plan_.access[i])) line("        o{} += index * l.stride[{}][{}];", i, operand++, a);
            }
        }
    }

    void steps(const char* indent) {
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            const ElementwiseStep& step = program_.steps[s];
            std::string value = expression(program_, s);
            if (step.round) value = fmt::format("FROM({0}, TO({0}, {1}))", kernel_name_of(step.result), value);
            line("{}const {} {} = ({})({});", indent, type_of(step.result),
                 value_name(static_cast<int>(program_.inputs.size() + s)), type_of(step.result), value);
        }
    }

    void scalar_body() {
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            if (plan_.access[i] == Access::constant) continue;
            const std::string at = plan_.access[i] == Access::linear ? "at" : fmt::format("o{}", i);
            line("        const {} {} = LOAD({}, in{}, {});", type_of(program_.inputs[i]), value_name(int(i)),
                 kernel_name_of(program_.inputs[i]), i, at);
        }
        steps("        ");
        for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
            line("        STORE({}, out{}, at, {});", kernel_name_of(result_of(program_.outputs[o])), o,
                 value_name(program_.outputs[o]));
        }
    }

    void vector_body() {
        line("    const INDEX blocks = count / {};", plan_.vector);
        line("    FOR_EACH(block, blocks) {{");
        line("        const INDEX at = block * {};", plan_.vector);
        offsets();
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const Access a = plan_.access[i];
            const auto name = kernel_name_of(program_.inputs[i]);
            if (a == Access::linear || a == Access::row) {
                line("        const vector_{0} x{1} = LOAD_VECTOR(vector_{0}, in{1}, {2});", name, i,
                     a == Access::linear ? std::string("at") : fmt::format("o{}", i));
            } else if (a == Access::row_constant) {
                line("        const {} {} = LOAD({}, in{}, o{});", type_of(program_.inputs[i]), value_name(int(i)),
                     name, i, i);
            }
        }
        for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
            line("        vector_{} y{};", kernel_name_of(result_of(program_.outputs[o])), o);
        }
        line("        UNROLL for (int k = 0; k < {}; ++k) {{", plan_.vector);
        int operand = 0;
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const Access a = plan_.access[i];
            const auto name = kernel_name_of(program_.inputs[i]);
            const int mine = needs_layout(a) ? operand++ : 0;
            if (a == Access::linear || a == Access::row) {
                line("            const {} {} = FROM({}, x{}.e[k]);", type_of(program_.inputs[i]), value_name(int(i)),
                     name, i);
            } else if (a == Access::strided) {
                line("            const {} {} = LOAD({}, in{}, o{} + k * l.stride[{}][{}]);",
                     type_of(program_.inputs[i]), value_name(int(i)), name, i, i, mine, plan_.walk.sizes.rank() - 1);
            }
        }
        steps("            ");
        for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
            line("            y{}.e[k] = TO({}, {});", o, kernel_name_of(result_of(program_.outputs[o])),
                 value_name(program_.outputs[o]));
        }
        line("        }}");
        for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
            line("        STORE_VECTOR(vector_{0}, out{1}, at, y{1});", kernel_name_of(result_of(program_.outputs[o])),
                 o);
        }
        line("    }}");
        if (!plan_.flat) return;  // rows are whole numbers of vectors
        line("    if (GLOBAL_ID(0) < count - blocks * {}) {{", plan_.vector);
        line("        const INDEX at = blocks * {} + GLOBAL_ID(0);", plan_.vector);
        scalar_body();
        line("    }}");
    }

    const ElementwiseProgram& program_;
    const EmitPlan& plan_;
    std::string text_;
};

Access access_of(const Walk& walk, const Strides& strides) {
    if (std::ranges::all_of(strides, [](std::int64_t s) { return s == 0; })) return Access::constant;
    if (is_contiguous(walk.sizes, strides)) return Access::linear;
    const std::int64_t last = strides.back();
    return last == 1 ? Access::row : last == 0 ? Access::row_constant : Access::strided;
}

/// Elements a thread takes at once: 16 bytes of the widest operand that is read or written in whole vectors, or one
/// when an operand is not aligned for that.
int vector_of(const EmitPlan& plan, std::span<const View> inputs, std::span<const View> outputs) {
    std::int64_t widest = 1;
    for (const View& v : outputs) widest = std::max(widest, size_of(v.dtype));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (plan.access[i] != Access::constant) widest = std::max(widest, size_of(inputs[i].dtype));
    }
    const std::int64_t n = std::min<std::int64_t>(16 / widest, 8);
    const auto aligned = [&](const View& v) {
        return reinterpret_cast<std::uintptr_t>(v.data) % static_cast<std::uintptr_t>(n * size_of(v.dtype)) == 0;
    };
    if (!plan.flat && plan.walk.sizes.back() % n != 0) return 1;
    for (const View& v : outputs) {
        if (!aligned(v)) return 1;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (plan.access[i] != Access::linear && plan.access[i] != Access::row) continue;
        if (!aligned(inputs[i])) return 1;
        const Strides& s = plan.walk.strides[i];
        for (std::int64_t a = 0; a + 1 < s.rank(); ++a) {
            if (s[a] % n != 0) return 1;
        }
    }
    return static_cast<int>(n);
}

}  // namespace

std::string cast_expression(DType from, DType to, const std::string& value) {
    if (to == boolean) return "(b8)(" + value + " != 0)";
    if (is_half(to)) {
        if (from == f64) return "calor_odd_from_f64(" + value + ")";
        if (from == i64 || from == i32) return "calor_odd_from_i64((i64)" + value + ")";
        if (from == u64 || from == u32) return "calor_odd_from_u64((u64)" + value + ")";
        return "(f32)" + value;
    }
    if (is_floating(from) && !is_floating(to)) {
        return fmt::format("calor_from_{}_{}({})", kernel_name_of(from), kernel_name_of(to), value);
    }
    return fmt::format("({}){}", kernel_name_of(to), value);
}

std::vector<UsedParameter> program_parameters(const ElementwiseProgram& program) {
    std::vector<UsedParameter> used;
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
        const ElementwiseStep& step = program.steps[s];
        if (step.traits->cast) continue;
        const std::string_view text = step.traits->text;
        for (int i = 0; i < 4; ++i) {
            if (text.find("p" + std::to_string(i)) != std::string_view::npos) {
                used.push_back({s, i, compute_type(step.operand)});
            }
        }
    }
    return used;
}

EmitPlan plan_program(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs) {
    EmitPlan plan;
    std::vector<const Strides*> strides;
    for (const View& v : inputs) strides.push_back(v.strides);
    plan.walk = join_axes(program.shape, strides, *outputs[0].strides);
    plan.flat = true;
    for (const Strides& s : plan.walk.strides) {
        plan.access.push_back(access_of(plan.walk, s));
        plan.flat = plan.flat && !needs_layout(plan.access.back());
    }
    plan.vector = vector_of(plan, inputs, outputs);
    fmt::format_to(std::back_inserter(plan.key), "{}:{}:", plan.flat ? 0 : plan.walk.sizes.rank(), plan.vector);
    const auto use = [&](DType t) { plan.dtypes |= 1U << static_cast<unsigned>(t); };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        plan.key += static_cast<char>('a' + static_cast<int>(inputs[i].dtype));
        plan.key += static_cast<char>('0' + static_cast<int>(plan.access[i]));
        use(inputs[i].dtype);
    }
    for (const ElementwiseStep& s : program.steps) {
        fmt::format_to(std::back_inserter(plan.key), ";{}{}{}{}{},{},{}", s.traits->name,
                       static_cast<char>('A' + static_cast<int>(s.operand)),
                       static_cast<char>('A' + static_cast<int>(s.result)), s.round ? '!' : ' ', s.inputs[0],
                       s.inputs[1], s.inputs[2]);
        use(s.operand);
        use(s.result);
    }
    for (const int o : program.outputs) fmt::format_to(std::back_inserter(plan.key), ">{}", o);
    return plan;
}

std::string emit_program(const ElementwiseProgram& program, const EmitPlan& plan) {
    return Emitter(program, plan).run();
}

}  // namespace calor::gpu
