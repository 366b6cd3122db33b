// What other families may use of the reductions: the engine with its kernels, for statistics over axes.
#pragma once

#include "ops/reduce/engine.h"
