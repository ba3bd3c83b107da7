// What a drawn workload is like: how often neurons fire, what neighbouring tokens have in common, what predictors get wrong.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace vitro {

struct FiringProfile {
  double fraction = 0.1;  // of a layer's neurons fire per token, in the mean; 0 to 1
  // Popularity falls with rank r = 1 ... N as r^-skew, capped at 1. 0: all alike. 0.8 puts most of the activity into a
  // fifth of the neurons, as PowerInfer (2312.12456, section 3.1) found for ReLU models.
  double skew = 0;
  // In place of both: points (share of the neurons, hottest first; probability of the neuron there), shares rising, probabilities
  // falling. Between points the logarithm of the probability is a straight line over that of the rank; beyond them it is level.
  struct Point {
    double neurons = 0, probability = 0;
  };
  std::vector<Point> curve;
  bool stated = true;  // the share or the curve is whoever made the profile's; else it is the default
};

// What a predictor gets wrong: it names `recall` of the neurons that fire, and of those that it names `precision` fire: the share
// of named gates whose Up and Down are needed as well (the co-activation within a bundle of PowerInfer-2, section 4.4).
// Which silent neurons it names is drawn in proportion to how often they fire: a predictor errs where a gate is near its
// threshold (assumed; no source states how errors are distributed). They persist as the firing does, misses do not.
struct PredictorProfile {
  double recall = 1, precision = 1;
};

struct DrawProfile {
  std::vector<FiringProfile> layers{FiringProfile{}};  // a layer behind the last one has the last one's profile
  double expert_skew = 0;                              // as `skew`, for the popularity of experts within a layer
  // How much neighbouring tokens have in common. With probability `persistence` a neuron repeats what it drew for its current
  // stretch of `stretch` tokens instead of drawing anew; stretches of different neurons do not line up.
  double persistence = 0;
  double expert_persistence = 0;  // the same for an expert's score
  // Of the experts that a row chooses, those that the layer's router names when it is asked a layer ahead (KernelCall::expert kForeseen).
  double expert_foresight = 0;
  std::uint32_t stretch = 8;
  // Tokens differ in how much fires for them: at each position a layer's probabilities are multiplied by a factor of mean 1 and this
  // standard deviation, log-normal up to twice the mean, drawn anew for every position. The logarithms of neighbouring layers' factors have
  // the correlation `layer_correlation`, those of layers further apart its power by their distance; at 1 all layers have one factor.
  double activity_spread = 0;
  double layer_correlation = 1;
  // Neurons stand by descending popularity, as in a file packed by frequency: rank = index. Else ranks are drawn.
  bool ordered = false;
  // What is asked of the model ("math"; empty: what the order was made from). Each task orders `task_share` of a layer's neurons,
  // the same ones for all tasks, by a popularity of its own.
  std::string task;
  double task_share = 0;
  PredictorProfile predictor;
};

// Throws ConfigError when a value is out of range.
void check(const DrawProfile& profile);

// The probability of firing by rank that a layer's profile gives; not rising.
std::vector<double> firing_curve(const FiringProfile& firing, std::uint32_t neurons);
// By rank, the probability that a neuron is named although it is silent; not rising. A precision too low for the silent neurons
// that there are names all that ever fire.
std::vector<double> false_alarms(const std::vector<double>& firing, const PredictorProfile& predictor);

}  // namespace vitro
