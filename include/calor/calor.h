// Everything.
#pragma once

#include "calor/activations.h"
#include "calor/autodiff.h"
#include "calor/creation.h"
#include "calor/data.h"
#include "calor/device.h"
#include "calor/dtype.h"
#include "calor/elementwise.h"
#include "calor/error.h"
#include "calor/reduce.h"
#include "calor/shape.h"
#include "calor/tensor.h"
#include "calor/train.h"
#include "calor/view.h"
