// `workload.products` and `workload.softmax`, read from their part of an experiment.
#pragma once
#include "engine/experiment/experiment.hpp"

namespace vitro {

// Throw ConfigError at the key that is wrong.
ProductWorkload read_product_workload(Reader reader);
SoftmaxWorkload read_softmax_workload(Reader reader);

}  // namespace vitro
