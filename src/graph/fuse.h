// Planning: the order of evaluation, and which elementwise nodes run together.
#pragma once

#include <vector>

#include "graph/node.h"

namespace calor::graph {

/// A set of nodes that run as one: a fused elementwise chain, or a single node.
struct Group {
    std::vector<Node*> members;  ///< in order of evaluation; the last is the root
};

struct Plan {
    std::vector<Node*> order;   ///< every pending node, inputs before consumers
    std::vector<Group> groups;  ///< only of two members or more; Node::group is the index
};

/// Collects the pending nodes below the roots. Leaves marks in the nodes; clear_marks() removes them.
Plan make_plan(std::span<const Tensor> roots);
void clear_marks(Node& node);

/// The program of a group (or of a single elementwise node), its inputs, and the nodes whose values are stored.
struct FusedProgram {
    ElementwiseProgram program;
    std::vector<Tensor> inputs;
    std::vector<Node*> stored;
};
FusedProgram build_program(std::span<Node* const> members);

}  // namespace calor::graph
