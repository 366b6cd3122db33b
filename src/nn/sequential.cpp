// Sequential.
#include "calor/nn/sequential.h"

namespace calor::nn {

Sequential& Sequential::operator=(const Sequential& other) {
    if (this == &other) return *this;
    parts_.resize(std::min(parts_.size(), other.parts_.size()));
    for (std::size_t i = 0; i < other.parts_.size(); ++i) {
        const Base& from = *other.parts_[i];
        if (i == parts_.size()) {
            parts_.push_back(from.clone());
        } else if (!parts_[i]->assign(from)) {
            parts_[i] = from.clone();
        }
    }
    return *this;
}

Tensor Sequential::operator()(const Tensor& x, const Where& where) const {
    Tensor y = x;
    for (const auto& part : parts_) y = part->call(y, where);
    return y;
}

void Sequential::calor_fields(FieldVisitor& visitor) {
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i]->visit(visitor, std::to_string(i));
}
void Sequential::calor_fields(FieldVisitor& visitor) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) std::as_const(*parts_[i]).visit(visitor, std::to_string(i));
}

}  // namespace calor::nn
