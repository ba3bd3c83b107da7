// Written by derive_flow_efficiency(): a test holds the two together.
#include <algorithm>
#include <span>

#include "engine/base/check.hpp"
#include "hw_models/dram/efficiency.hpp"

namespace vitro::hw {
namespace {

struct Row {
  const char* key;
  double value;
};

constexpr Row kLpddr56400[] = {
    {"sequential", 49.06e9}, {"chunk.32", 0.4392}, {"chunk.64", 0.4506}, {"chunk.128", 0.4697}, {"chunk.256", 0.7399},
    {"chunk.512", 0.9037}, {"chunk.1024", 0.9077}, {"chunk.2048", 0.8871}, {"chunk.4096", 0.944}, {"chunk.16384", 0.9888},
    {"chunk.65536", 0.9977}, {"strided.64/128", 0.5}, {"strided.64/256", 0.4987}, {"strided.64/512", 0.4885}, {"strided.64/1024", 0.4996},
    {"strided.64/2048", 0.4036}, {"strided.64/4096", 0.4915}, {"strided.64/8192", 0.4951}, {"strided.64/16384", 0.4998},
    {"strided.64/32768", 0.4965}, {"strided.64/65536", 0.3901}, {"strided.64/131072", 0.2471}, {"strided.64/262144", 0.1629},
    {"strided.64/524288", 0.0829}, {"strided.64/1048576", 0.0417}, {"strided.256/512", 0.9975}, {"strided.256/1024", 1.003},
    {"strided.256/2048", 0.6232}, {"strided.256/4096", 0.8132}, {"strided.256/8192", 0.9459}, {"strided.256/16384", 0.9903},
    {"strided.256/32768", 0.9995}, {"strided.256/65536", 0.993}, {"strided.256/131072", 0.7801}, {"strided.256/262144", 0.6384},
    {"strided.256/524288", 0.329}, {"strided.256/1048576", 0.1665}, {"strided.1024/2048", 1.002}, {"strided.1024/4096", 0.9693},
    {"strided.1024/8192", 0.9106}, {"strided.1024/16384", 0.8611}, {"strided.1024/32768", 0.7731}, {"strided.1024/65536", 0.9254},
    {"strided.1024/131072", 0.9172}, {"strided.1024/262144", 0.9984}, {"strided.1024/524288", 0.9601}, {"strided.1024/1048576", 0.6195},
    {"agents.1", 1}, {"agents.2", 0.9535}, {"agents.3", 0.9511}, {"agents.4", 0.9267}, {"agents.8", 0.8769}, {"agents.16", 0.8098},
    {"writes.0", 1}, {"writes.0.016", 0.959}, {"writes.0.046", 0.9254}, {"writes.0.108", 0.8678}, {"writes.0.247", 0.7966},
    {"writes.0.402", 0.7466}, {"writes.0.684", 0.7403}, {"writes.1", 0.972},
};

constexpr Row kLpddr5x8533[] = {
    {"sequential", 65.16e9}, {"chunk.32", 0.3124}, {"chunk.64", 0.3177}, {"chunk.128", 0.3275}, {"chunk.256", 0.5802},
    {"chunk.512", 0.8069}, {"chunk.1024", 0.8232}, {"chunk.2048", 0.828}, {"chunk.4096", 0.888}, {"chunk.16384", 0.981},
    {"chunk.65536", 0.9983}, {"strided.64/128", 0.5}, {"strided.64/256", 0.4997}, {"strided.64/512", 0.4795}, {"strided.64/1024", 0.4994},
    {"strided.64/2048", 0.38}, {"strided.64/4096", 0.4513}, {"strided.64/8192", 0.4848}, {"strided.64/16384", 0.5},
    {"strided.64/32768", 0.4991}, {"strided.64/65536", 0.3377}, {"strided.64/131072", 0.167}, {"strided.64/262144", 0.1215},
    {"strided.64/524288", 0.0617}, {"strided.64/1048576", 0.0311}, {"strided.256/512", 0.9994}, {"strided.256/1024", 1.001},
    {"strided.256/2048", 0.6102}, {"strided.256/4096", 0.7707}, {"strided.256/8192", 0.8889}, {"strided.256/16384", 0.9696},
    {"strided.256/32768", 0.9999}, {"strided.256/65536", 0.9982}, {"strided.256/131072", 0.6754}, {"strided.256/262144", 0.478},
    {"strided.256/524288", 0.2459}, {"strided.256/1048576", 0.1239}, {"strided.1024/2048", 0.9992}, {"strided.1024/4096", 0.9561},
    {"strided.1024/8192", 0.8893}, {"strided.1024/16384", 0.8379}, {"strided.1024/32768", 0.718}, {"strided.1024/65536", 0.8362},
    {"strided.1024/131072", 0.8301}, {"strided.1024/262144", 0.996}, {"strided.1024/524288", 0.8909}, {"strided.1024/1048576", 0.4879},
    {"agents.1", 1}, {"agents.2", 0.9254}, {"agents.3", 0.8944}, {"agents.4", 0.884}, {"agents.8", 0.8182}, {"agents.16", 0.7389},
    {"writes.0", 1}, {"writes.0.018", 0.9552}, {"writes.0.052", 0.8843}, {"writes.0.121", 0.8256}, {"writes.0.291", 0.7101},
    {"writes.0.463", 0.6733}, {"writes.0.765", 0.6854}, {"writes.1", 0.9641},
};

constexpr Row kLpddr5x9600[] = {
    {"sequential", 73.21e9}, {"chunk.32", 0.298}, {"chunk.64", 0.3063}, {"chunk.128", 0.3225}, {"chunk.256", 0.5344},
    {"chunk.512", 0.754}, {"chunk.1024", 0.7647}, {"chunk.2048", 0.7738}, {"chunk.4096", 0.8376}, {"chunk.16384", 0.967},
    {"chunk.65536", 0.9953}, {"strided.64/128", 0.5}, {"strided.64/256", 0.4966}, {"strided.64/512", 0.4741}, {"strided.64/1024", 0.4997},
    {"strided.64/2048", 0.3683}, {"strided.64/4096", 0.4295}, {"strided.64/8192", 0.487}, {"strided.64/16384", 0.4967},
    {"strided.64/32768", 0.4955}, {"strided.64/65536", 0.3221}, {"strided.64/131072", 0.1654}, {"strided.64/262144", 0.1089},
    {"strided.64/524288", 0.0551}, {"strided.64/1048576", 0.0277}, {"strided.256/512", 0.9931}, {"strided.256/1024", 0.9983},
    {"strided.256/2048", 0.6028}, {"strided.256/4096", 0.7458}, {"strided.256/8192", 0.8465}, {"strided.256/16384", 0.9739},
    {"strided.256/32768", 0.9934}, {"strided.256/65536", 0.9911}, {"strided.256/131072", 0.6442}, {"strided.256/262144", 0.4292},
    {"strided.256/524288", 0.2195}, {"strided.256/1048576", 0.1108}, {"strided.1024/2048", 0.9948}, {"strided.1024/4096", 0.9465},
    {"strided.1024/8192", 0.8807}, {"strided.1024/16384", 0.8132}, {"strided.1024/32768", 0.6916}, {"strided.1024/65536", 0.7662},
    {"strided.1024/131072", 0.7564}, {"strided.1024/262144", 0.9849}, {"strided.1024/524288", 0.8103}, {"strided.1024/1048576", 0.4339},
    {"agents.1", 1}, {"agents.2", 0.8756}, {"agents.3", 0.8489}, {"agents.4", 0.8336}, {"agents.8", 0.7818}, {"agents.16", 0.6874},
    {"writes.0", 1}, {"writes.0.019", 0.9425}, {"writes.0.056", 0.8782}, {"writes.0.130", 0.7962}, {"writes.0.308", 0.6901},
    {"writes.0.508", 0.6359}, {"writes.0.805", 0.6736}, {"writes.1", 0.9635},
};

constexpr Row kM2Lpddr56400[] = {
    {"sequential", 98.17e9}, {"chunk.32", 0.4277}, {"chunk.64", 0.4383}, {"chunk.128", 0.4516}, {"chunk.256", 0.4623},
    {"chunk.512", 0.7335}, {"chunk.1024", 0.9054}, {"chunk.2048", 0.8976}, {"chunk.4096", 0.8989}, {"chunk.16384", 0.9748},
    {"chunk.65536", 0.9956}, {"strided.64/128", 0.5}, {"strided.64/256", 0.25}, {"strided.64/512", 0.2496}, {"strided.64/1024", 0.2444},
    {"strided.64/2048", 0.25}, {"strided.64/4096", 0.2008}, {"strided.64/8192", 0.2451}, {"strided.64/16384", 0.246},
    {"strided.64/32768", 0.2497}, {"strided.64/65536", 0.2484}, {"strided.64/131072", 0.1968}, {"strided.64/262144", 0.1195},
    {"strided.64/524288", 0.0812}, {"strided.64/1048576", 0.0415}, {"strided.256/512", 0.9984}, {"strided.256/1024", 0.9776},
    {"strided.256/2048", 1}, {"strided.256/4096", 0.8032}, {"strided.256/8192", 0.9806}, {"strided.256/16384", 0.9842},
    {"strided.256/32768", 0.999}, {"strided.256/65536", 0.9936}, {"strided.256/131072", 0.7873}, {"strided.256/262144", 0.4781},
    {"strided.256/524288", 0.3248}, {"strided.256/1048576", 0.1661}, {"strided.1024/2048", 0.9999}, {"strided.1024/4096", 0.5548},
    {"strided.1024/8192", 0.6276}, {"strided.1024/16384", 0.8042}, {"strided.1024/32768", 0.9246}, {"strided.1024/65536", 0.9842},
    {"strided.1024/131072", 1.004}, {"strided.1024/262144", 0.9937}, {"strided.1024/524288", 0.954}, {"strided.1024/1048576", 0.5067},
    {"agents.1", 1}, {"agents.2", 0.951}, {"agents.3", 0.9426}, {"agents.4", 0.9336}, {"agents.8", 0.8724}, {"agents.16", 0.8189},
    {"writes.0", 1}, {"writes.0.018", 0.9588}, {"writes.0.052", 0.9175}, {"writes.0.117", 0.8635}, {"writes.0.265", 0.7812},
    {"writes.0.418", 0.7473}, {"writes.0.697", 0.7516}, {"writes.1", 0.9581},
};

struct Table {
  std::string_view part;
  std::span<const Row> rows;
};
constexpr Table kTables[] = {
    {"lpddr5_6400", kLpddr56400},
    {"lpddr5x_8533", kLpddr5x8533},
    {"lpddr5x_9600", kLpddr5x9600},
    {"m2_lpddr5_6400", kM2Lpddr56400},
};

}  // namespace

FlowEfficiency derived_flow_efficiency(std::string_view part) {
  const auto table = std::find_if(std::begin(kTables), std::end(kTables), [part](const Table& t) { return t.part == part; });
  VITRO_CHECK(table != std::end(kTables), "no efficiencies were derived for this DRAM part");
  FlowEfficiency::Entries entries;
  for (const Row& row : table->rows) entries.emplace_back(row.key, row.value);
  return {entries, std::string(part)};
}

}  // namespace vitro::hw
