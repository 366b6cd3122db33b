// What most sources of the operations include anyway, read once. Sources still include what they use.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "graph/node.h"
