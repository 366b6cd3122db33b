// What most sources of the devices include anyway, read once. Sources still include what they use.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "calor/device.h"
#include "core/fail.h"
