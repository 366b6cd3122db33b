// Uses an installed calor the way a user's program does, and checks what it gets.
#include <calor/error.h>
#include <calor/shape.h>

#include <cstdio>

int main() {
    const auto* entry = calor::find_error("autodiff/not-scalar");
    if (!entry || entry->kind != calor::ErrorKind::shape) return 1;
    std::printf("%s\n", entry->meaning.c_str());
    return 0;
}
