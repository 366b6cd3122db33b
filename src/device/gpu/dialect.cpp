#include "device/gpu/dialect.h"

#include <fmt/format.h>

#include <array>

#include "core/fail.h"
#include "device/gpu/emit.h"

namespace calor::gpu {
namespace embedded {
extern const char cuda[], opencl[], common[], real[], special[], integer[], halves[];
}

namespace {

constexpr std::string_view blanks = " \t\r\n";

std::string_view trimmed(std::string_view s) {
    const auto first = s.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return s.substr(first, s.find_last_not_of(blanks) - first + 1);
}

/// Comma-separated parts outside of inner parentheses.
std::vector<std::string_view> parts_of(std::string_view list) {
    std::vector<std::string_view> parts;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= list.size(); ++i) {
        if (i == list.size() || (list[i] == ',' && depth == 0)) {
            parts.push_back(trimmed(list.substr(begin, i - begin)));
            begin = i + 1;
        } else if (list[i] == '(') {
            ++depth;
        } else if (list[i] == ')') {
            --depth;
        }
    }
    return parts;
}

std::size_t closing(std::string_view text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
        if (text[i] == '(') ++depth;
        if (text[i] == ')' && --depth == 0) return i;
    }
    return std::string_view::npos;
}

struct Head {
    std::string entry;
    std::vector<Parameter> parameters;
    std::size_t begin = 0, end = 0;  ///< from KERNEL to behind the brace that opens the body
};

Parameter parameter_of(std::string_view part, std::string_view path) {
    constexpr std::array<std::pair<std::string_view, Parameter::Kind>, 7> words = {
        {{"IN", Parameter::Kind::in},
         {"OUT", Parameter::Kind::out},
         {"INOUT", Parameter::Kind::inout},
         {"SIZE", Parameter::Kind::size},
         {"VALUE", Parameter::Kind::value},
         {"LAYOUT", Parameter::Kind::layout},
         {"STRUCT", Parameter::Kind::structure}}};
    const auto open = part.find('(');
    for (const auto& [word, kind] : words) {
        if (open == std::string_view::npos || trimmed(part.substr(0, open)) != word || part.back() != ')') continue;
        const auto inner = parts_of(part.substr(open + 1, part.size() - open - 2));
        const std::size_t expected = kind == Parameter::Kind::size ? 1 : kind == Parameter::Kind::layout ? 3 : 2;
        if (inner.size() != expected) break;
        std::string type(expected == 1 ? "INDEX" : inner[0]);
        if (expected == 3) type += "," + std::string(inner[1]);
        return {kind, std::move(type), std::string(inner.back())};
    }
    fail_internal(fmt::format("{}: '{}' is no parameter of a kernel", path, part));
}

/// The next head at or after `from`; begin == npos when there is none.
Head next_head(const KernelFile& file, std::string_view text, std::size_t from) {
    Head head;
    head.begin = text.find("\nKERNEL(", from);
    if (from == 0 && text.starts_with("KERNEL(")) {
        head.begin = 0;
    } else if (head.begin == std::string_view::npos) {
        return head;
    } else {
        ++head.begin;
    }
    const std::size_t open = head.begin + 6, close = closing(text, open);
    const std::size_t brace = close == std::string_view::npos ? close : text.find_first_not_of(blanks, close + 1);
    if (brace == std::string_view::npos || text[brace] != '{') {
        fail_internal(fmt::format("{}: the head of a kernel does not end", file.path));
    }
    const auto parts = parts_of(text.substr(open + 1, close - open - 1));
    head.entry = std::string(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) head.parameters.push_back(parameter_of(parts[i], file.path));
    head.end = brace + 1;
    return head;
}

/// Behind the brace that closes the body.
std::size_t body_end(std::string_view text, std::size_t from) {
    int depth = 1;
    for (; from < text.size() && depth > 0; ++from) depth += text[from] == '{' ? 1 : text[from] == '}' ? -1 : 0;
    return from;
}

std::string layout_type(const std::string& entry, const Parameter& p) { return entry + "_" + p.name + "_layout"; }

/// typedef struct { sizes, strides and magic numbers } for a LAYOUT parameter.
std::string layout_declaration(const std::string& entry, const Parameter& p, bool wide) {
    const auto comma = p.type.find(',');
    const std::string rank = "MAX(" + p.type.substr(0, comma) + ", 1)", operands = p.type.substr(comma + 1);
    return fmt::format("typedef struct {{ INDEX size[{0}]; INDEX stride[{1}][{0}]; {2}}} {3}; ", rank, operands,
                       wide ? "" : fmt::format("u32 magic[{0}]; u32 shift[{0}]; ", rank), layout_type(entry, p));
}

std::string cuda_parameter(const std::string& entry, const Parameter& p) {
    switch (p.kind) {
        case Parameter::Kind::in: return fmt::format("const {}* __restrict__ {}", p.type, p.name);
        case Parameter::Kind::out: return fmt::format("{}* __restrict__ {}", p.type, p.name);
        case Parameter::Kind::inout: return fmt::format("{}* {}", p.type, p.name);
        case Parameter::Kind::layout: return fmt::format("const {} {}", layout_type(entry, p), p.name);
        default: return fmt::format("const {} {}", p.type, p.name);
    }
}

/// A buffer is the object and a byte offset; the pointer is made at the start of the body.
std::string opencl_parameter(const std::string& entry, const Parameter& p) {
    switch (p.kind) {
        case Parameter::Kind::in:
        case Parameter::Kind::out:
        case Parameter::Kind::inout: return fmt::format("__global uchar* {0}_base_, const long {0}_offset_", p.name);
        default: return cuda_parameter(entry, p);
    }
}
std::string opencl_pointer(const Parameter& p) {
    const char* constant = p.kind == Parameter::Kind::in ? "const " : "";
    return fmt::format("__global {0}{1}* {2} = (__global {0}{1}*)({2}_base_ + {2}_offset_); ", constant, p.type,
                       p.name);
}

std::string head_text(const Head& head, const Source& source, DeviceKind target) {
    std::string before, list, body;
    for (const Parameter& p : head.parameters) {
        if (p.kind == Parameter::Kind::layout) before += layout_declaration(head.entry, p, source.wide_index);
        if (!list.empty()) list += ", ";
        list += target == DeviceKind::cuda ? cuda_parameter(head.entry, p) : opencl_parameter(head.entry, p);
        if (target == DeviceKind::opencl && p.kind <= Parameter::Kind::inout) body += opencl_pointer(p);
    }
    const std::string start = target == DeviceKind::cuda
                                  ? std::string("extern \"C\" __global__ void __launch_bounds__(THREADS) ")
                                  : fmt::format("__kernel __attribute__((reqd_work_group_size({}, {}, {}))) void ",
                                                source.threads.x, source.threads.y, source.threads.z);
    return before + start + head.entry + "(" + list + ") { " + body;
}

bool mentions(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

void add_reals(std::string& out, const Source& source, bool f64_there, bool special) {
    const auto used = [&](DType t) { return (source.dtypes & (1U << static_cast<unsigned>(t))) != 0; };
    const bool halves = used(f32) || used(f16) || used(bf16);
    if (f64_there && (used(f64) || (halves && special))) {
        out += "#define REAL f64\n#define REAL_BITS 64\n#define FUNCTION(name) calor_##name##_f64\n";
        out += embedded::real;
        if (special) out += embedded::special;
        out += "#undef REAL\n#undef REAL_BITS\n#undef FUNCTION\n";
    }
    if (!halves) return;
    out += "#define REAL f32\n#define REAL_BITS 32\n#define FUNCTION(name) calor_##name##_f32\n";
    out += embedded::real;
    if (special) out += embedded::special;
    out += "#undef REAL\n#undef REAL_BITS\n#undef FUNCTION\n";
}

void add_integers(std::string& out, const Source& source) {
    for (const DType t : {i64, i32, i16, i8, u64, u32, u16, u8, boolean}) {
        if ((source.dtypes & (1U << static_cast<unsigned>(t))) == 0) continue;
        const std::int64_t bits = 8 * size_of(t);
        const bool is_signed = is_signed_integer(t);
        const std::string name(kernel_name_of(t));
        const std::string most = is_signed ? fmt::format("(({0})(((u64)1 << {1}) - 1))", name, bits - 1)
                                           : fmt::format("(({0})~(u64)0)", name);
        out += fmt::format(
            "#define INT {0}\n#define UINT {1}\n#define INT_BITS {2}\n#define INT_SIGNED {3}\n#define INT_MOST {4}\n"
            "#define INT_LEAST {5}\n#define INT_MASK {6}\n#define FUNCTION(name) calor_##name##_{0}\n",
            name, bits == 64 ? "u64" : "u32", bits, is_signed ? 1 : 0, most,
            is_signed ? fmt::format("(({0})((u64)1 << {1}))", name, bits - 1) : fmt::format("(({})0)", name),
            t == boolean ? "(UINT)1" : "(UINT)~(UINT)0");
        out += embedded::integer;
        for (const char* word :
             {"INT", "UINT", "INT_BITS", "INT_SIGNED", "INT_MOST", "INT_LEAST", "INT_MASK", "FUNCTION"}) {
            out += fmt::format("#undef {}\n", word);
        }
    }
}

/// CAST(from, to, value) for every pair.
void add_casts(std::string& out) {
    for (int from = 0; from < dtype_count; ++from) {
        if (is_half(static_cast<DType>(from))) continue;
        for (int to = 0; to < dtype_count; ++to) {
            const auto f = static_cast<DType>(from), t = static_cast<DType>(to);
            out += fmt::format("#define calor_cast_{}_{}(value) ({})\n", kernel_name_of(f), kernel_name_of(t),
                               cast_expression(f, t, "(value)"));
        }
    }
}

/// The parts of the prelude that the text may need.
std::string prelude(const Source& source, DeviceKind target, bool f64_there) {
    std::string out;
    if (f64_there) out += "#define CALOR_F64 1\n";
    out += fmt::format("#define CALOR_WIDE_INDEX {}\n#define INDEX {}\n#define THREADS {}\n", source.wide_index ? 1 : 0,
                       source.wide_index ? "i64" : "int", source.threads.count());
    out += target == DeviceKind::cuda ? embedded::cuda : embedded::opencl;
    out += embedded::common;
    const std::string_view text = source.file->text;
    if (mentions(text, "FN(") || mentions(text, "calor_") || mentions(text, "CAST(")) {
        bool special = false;
        for (const char* name : {"lgamma", "digamma", "trigamma", "polygamma", "erfinv", "floor_divide"}) {
            special = special || mentions(text, name);
        }
        add_reals(out, source, f64_there, special);
        add_integers(out, source);
        if (mentions(text, "calor_odd_") || mentions(text, "calor_nextafter_") || mentions(text, "CAST(")) {
            out += embedded::halves;
        }
        if (mentions(text, "CAST(")) add_casts(out);
    }
    return out;
}

}  // namespace

std::string_view kernel_name_of(DType dtype) { return dtype == boolean ? "b8" : name_of(dtype); }

std::vector<Parameter> parameters_of(const KernelFile& file, std::string_view entry) {
    const std::string_view text = file.text;
    for (std::size_t at = 0;;) {
        Head head = next_head(file, text, at);
        if (head.begin == std::string_view::npos) {
            fail_internal(fmt::format("{} has no kernel {}", file.path, entry));
        }
        if (head.entry == entry) return head.parameters;
        at = head.end;
    }
}

std::string translate(const Source& source, DeviceKind target, bool f64) {
    std::string out = prelude(source, target, f64) + source.constants;
    out += fmt::format("#line 1 \"{}\"\n", source.file->path);
    const std::string_view text = source.file->text;
    std::size_t at = 0;
    while (true) {
        const Head head = next_head(*source.file, text, at);
        if (head.begin == std::string_view::npos) break;
        out += text.substr(at, head.begin - at);
        const bool chosen = head.entry == source.entry;  // others may lack their constants
        if (chosen) out += head_text(head, source, target);
        at = chosen ? head.end : body_end(text, head.end);
        for (const char c : text.substr(head.begin, at - head.begin)) {
            if (c == '\n') out += c;  // the lines behind keep their numbers
        }
    }
    out += text.substr(at);
    return out;
}

}  // namespace calor::gpu
