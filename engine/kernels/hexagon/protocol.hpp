// What the CPU and the Hexagon worker say to each other: plain words at fixed places, so that one header serves both compilers.
//
// Two shared regions. `inbound` is written by the CPU and mapped read-only by the worker: request, operators, weights and
// activations. A worker that runs wild can not damage them. `outbound` is the worker's: response and results. The CPU takes
// a result only when its checksum, which carries the request's sequence number, fits. All numbers are little-endian.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/base/exponential.hpp"
#include "engine/base/stage_plan.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kMagic = 0x4f525456, kVersion = 19;
inline constexpr uint32_t kMostOperators = 256;                  // of a request
inline constexpr uint32_t kArenaStart = 32 * 1024;               // in inbound: behind request and operators
inline constexpr uint32_t kResultsStart = 64 * 1024;             // in outbound: behind the response
inline constexpr uint32_t kTcmBytes = 8 * 1024 * 1024;           // of stages: what V73 to V79 have (TTS-NPU 3.1.2)
inline constexpr uint32_t kMostLogged = 7680;                    // events of stages in one request that its answer has room for
inline constexpr uint32_t kMostVectorThreads = 4;                // of HVX that share a step
inline constexpr uint32_t kVectorBytes = 128;                    // of HVX: operands are aligned to it
inline constexpr uint32_t kLutPanelRows = 128;                   // rows that share a panel of weights (panels.hpp)
inline constexpr uint32_t kBlockColumns = 32;                    // columns that share a scale

inline constexpr uint32_t kPlaceBytes = 64;  // places: uint32, where rows of weights begin in such units, from in[0] on
// Behind the places of rows of nibbles, whose scales lie apart (Scales::apart), these stand from the next whole vector on: fp16 [rows]
// [columns / 32].

// What `operands` of an Operator mean. in: offsets into inbound, out: into outbound, all multiples of kVectorBytes. Of rows in places the
// first one is any multiple of 4, and the last one, in[3], has the places [rows].
enum class Kind : uint32_t {
  none,
  matmul_q8_0,         // in: strips of q8_0, x int8 in tiles [batch / 32][columns / 32] (block_layout.hpp), its scales f32
                       // [batch][columns / 32];  out: y f32 [batch][rows]
  matmul_q4_0,         // the same with strips of q4_0
  matmul_lut,          // in: bit-serial panels, x int8 [batch][columns], ActivationScale[batch][columns / group];  out: the same
  matmul_hmx,          // in: tile strips of q4_0 or w4_outliers, x fp16 in tiles [batch / 32][columns / 32], value table fp16
                       // [64];  out: the same
  lut_precompute,      // in: x int8 [columns];                            out: tables int16 (lut_reference.hpp), as vlut16 wants them
  dequantise,          // in: nibbles, fp16 scales, table fp16 [16];       out: q fp16, then scales fp16, one per element
  dequantise_fused,    // in: nibbles, fp16 tables [rows / 32][16];      out: fp16: the table of a group holds its scaled values
  unpack,              // ablation, no table: in: nibbles;                 out: int16 q - 8, what a conversion would start from
  scatter,             // ablation, conventional layout: in: q4_0 [rows][columns] as a file has it, table; out: fp16, scattered into tiles
  copy,                // ablation, nothing but the bytes: in: nibbles;    out: the same
  exp_table,           // in: fp16 x <= 0 [rows], table fp16 [32768];      out: fp16 2^x
  dequantise_tiles,    // in: tile groups: nibbles, fp16 scales, table fp16 [64];  out: fp16 [rows], rounded products
  attention,           // of queries of one sequence, in stages (attention_layout.hpp). rows: keys; columns: of a head; batch: queries of
                       // each head of keys and values, of which there are `bits`. in: q fp16 in tiles [bits][batch / 32][columns / 32] and
                       // behind them the keys that each sees, uint32 [batch, even]; k and v fp16 [bits][2][pitch][columns], zero behind the
                       // last key; table fp16 [32768], if it is gathered;  out: fp16 [bits][batch][columns]
  matmul_hmx_lut,      // in: bit-serial panels, x as matmul_hmx, two tables fp16 [64] (lut_stages.hpp);  out: f32 [batch][rows]
  matmul_lut_rounded,  // as matmul_lut with tables of int8 (variant::kInt8Tables): RoundedScale in place of ActivationScale
  matmul_hmx_f16,      // in: strips of fp16, x as matmul_hmx;  out: f32 [batch][rows]
  matmul_hmx_int8,     // in: bit-serial panels of one scale per row, x int8 in tiles [batch / 32][columns / 32], two vectors of tables
                       // (hvx_int8_tiles) and a scale of each row of x, f32 [batch];  out: f32 [batch][rows]
  matmul_lut_wide,     // as matmul_lut with activations of 14 bits (variant::kInt16Tables): x int16 [batch][columns]
  uncoalesced,         // ablation, groups in the order of tiles: in: q4_0 [rows / 32] as in files, table;  out: fp16 [rows]
  convert_planes,      // ablation, no tables: in: planes, float32 scales and zeros [rows / 1024][32];  out: fp16 [rows] (layout_stages.hpp)
  matmul_hmx_scaled,   // as matmul_hmx_lut with scales in the tables (scaled_tables.hpp): weights are the matrix unit's first operand, so
                       // tiles of x are turned: of the second one, [batch / 32][columns / 32]
  matmul_hmx_f16_rows,  // as matmul_hmx_f16, rows of fp16 in places; columns % 64 == 0
  matmul_q8_0_rows,     // as matmul_q8_0, rows in places as a file has them
  matmul_q4_0_rows,     // as matmul_q4_0, the same
  add_rows,  // in: rows of f16, q8_0 or q4_0 (bits: 16, 8, 4) in places, h f32 [batch][rows]; out: f32 [batch][columns], the sum over rows
             // ascending of h times the row, one fused multiply-add each, without rows whose h is 0 (add_layout.hpp)
  matmul_hmx_q8,       // as matmul_hmx_f16: strips of q8_0
  matmul_hmx_q8_rows,  // the same, rows in places as a file has them
  matmul_hmx_rows,     // as matmul_hmx, the same
  convert_planes_in_halves,  // as convert_planes, scales and zeros fp16 [rows / 1024][64]
};

// What a code q of bit-serial weights stands for: q - zero with one zero point for the matrix, or for each row and block; or, with one
// bit, a sign: 2q - 1.
enum class Zeros : uint32_t { same, of_blocks, signs };

// A zero point's bits in panels: a power of two, so that no field lies in two bytes. And bytes of a row's.
constexpr uint32_t zero_field_bits(uint32_t bits) { return bits == 3 ? 4 : bits; }
constexpr uint32_t zero_bytes(uint32_t bits, uint32_t blocks) { return (blocks * zero_field_bits(bits) + 7) / 8; }

// What has a scale of its own: a block of columns of a row; two columns of 16 rows (TTS-NPU 5.1, matmul_hmx alone); a row of a
// bit-serial matrix, all of it; a row, and its outliers (w4_outliers, matmul_hmx alone); or a block of a row in places that holds nibbles
// alone, while scales lie apart.
enum class Scales : uint32_t { of_blocks, of_tile_groups, of_rows, of_outlier_rows, apart };

// Rows and columns of a bit-serial matrix that lie together in memory and that a pass of the loops takes; a matrix's last tiles may have
// less. Rows are whole panels, columns as many as 2, 4, 8 or 16 vectors of tables stand for, in whole blocks
// (engine/base/lut_tiling.hpp finds them).
struct TileShape {
  uint16_t rows, columns;
};
inline constexpr uint32_t kMostTileRows = 4096, kMostTileColumns = 256;

struct Operator {
  Kind kind;
  uint32_t rows, columns, batch;
  uint32_t in[4], out;
  uint32_t out_bytes;
  uint32_t bits, zero, group;  // of bit-serial panels: planes, zero point, columns that share a scale: 32, 64 or 128
  Zeros zeros;
  Scales scales;   // of bit-serial panels, matmul_hmx and rows in places
  uint32_t pitch;  // attention: rows from the first key of a head to its first value: whole tiles
  uint32_t fewest;  // attention: keys that each query sees at least
  TileShape tile;  // of bit-serial panels
  StagePlan stages;  // of products on the matrix unit and by look-up, and of attention
  Spill spill;       // of products by look-up
  Exponential exponential;  // of attention
};
static_assert(sizeof(Operator) == 116);

// Threads of the worker, in the order in which they start. `control` takes requests, starts stages and does all other operators;
// `engine` stands in for the DMA engine; `matrix` drives the matrix unit; HVX threads are a pool, as the SDK has one.
enum class Thread : uint8_t { control, engine, matrix, vector };
inline constexpr uint32_t kThreads = static_cast<uint32_t>(Thread::vector) + kMostVectorThreads;
inline constexpr const char* kThreadNames[kThreads] = {"control", "dma", "matrix", "hvx0", "hvx1", "hvx2", "hvx3"};

// What a worker logs of stages: its place in the log is its place in one order of everything that all threads did.
enum class StageMark : uint8_t { issue, begin, end };  // issue: a transfer is queued; begin, end: by the thread that works
inline constexpr uint8_t kActivations = kStages;       // beside the stages: the transfer of a pass's activations, and the making of tables
struct StageEvent {
  uint8_t mark, stage, thread, op;  // op: index in the request
  uint32_t step;                    // over all passes
  constexpr bool operator==(const StageEvent&) const = default;
};
static_assert(sizeof(StageEvent) == 8);

// Of a block of activations in the int8 contract (engine/ops/variants.hpp), beside its quants.
struct ActivationScale {
  float scale;
  int32_t sum;  // of quants
};

// And for tables of int8: what rounds their entries, which a DSP without division would be slow to find, and what an entry is worth.
struct RoundedScale {
  float scale;
  int32_t sum;
  int32_t factor;  // r of variant::kInt8Tables
  float unit;      // M / 127 * step / 2
};

struct Request {
  uint32_t magic, version;
  uint32_t inbound_bytes, outbound_bytes;
  uint32_t count, stop;
  uint32_t checksum;  // of count, sequence and operators
  uint32_t reserved[24];
  volatile uint32_t sequence;  // written last
  Operator operators[kMostOperators];
};
static_assert(sizeof(Request) <= kArenaStart);

enum class Answer : uint32_t { done, bad_request, bad_operator };

struct Response {
  volatile uint32_t ready;     // kMagic once the worker waits for requests
  volatile uint32_t progress;  // grows while it computes: what tells slow from hung
  uint32_t answer, where;      // of the request; the operator that was refused
  uint32_t checksum;           // of answer, where, sequence, spilled, sums and log
  volatile uint32_t sequence;  // of the request answered; written last
  uint32_t logged;             // events of stages, also those that the log has no room for
  uint32_t spilled[3];         // by Spill: float32 sums that waited there between two parts of the depth
  uint32_t sums[kMostOperators];
  StageEvent log[kMostLogged];
};
static_assert(sizeof(Response) <= kResultsStart);

// By which a worker is told where its regions are: the arguments of its one method over FastRPC (kServe), all of them in one buffer, as
// the stubs of Qualcomm's compiler for `long serve(in long, in unsigned long, in long, in unsigned long)` would pack them.
struct ServeCall {
  int32_t inbound_fd;
  uint32_t inbound_bytes;
  int32_t outbound_fd;
  uint32_t outbound_bytes;
};
inline constexpr uint32_t kServe = 2;  // 0 and 1 are open and close
inline constexpr const char* kModuleUri = "file:///libvitro_hexagon_skel.so?vitro_hexagon_skel_handle_invoke&_modver=1.0";

// A step is a bijection of either argument: one wrong word is always seen, several but for one time in 2^32.
inline uint32_t checksum_words(uint32_t seed, const uint32_t* words, uint32_t count) {
  uint32_t sum = 0x811c9dc5u ^ seed;
  for (uint32_t i = 0; i < count; ++i) sum = (sum ^ words[i]) * 0x01000193u;
  return sum;
}

// Seeds of the sums, so that an answer to another request or another operator never fits.
inline uint32_t seed_of(uint32_t sequence, uint32_t index) { return sequence * 0x9e3779b9u + index * 0x85ebca6bu; }

inline uint32_t request_sum(const Request& request, uint32_t sequence) {
  const auto* words = reinterpret_cast<const uint32_t*>(request.operators);
  return checksum_words(seed_of(sequence, request.count), words, request.count * (sizeof(Operator) / 4));
}

inline uint32_t response_sum(const Response& response, uint32_t sequence, uint32_t count) {
  const uint32_t spilled = checksum_words(seed_of(sequence, response.answer ^ response.where << 8), response.spilled, 3);
  const uint32_t sums = checksum_words(spilled, response.sums, count);
  const uint32_t logged = response.logged < kMostLogged ? response.logged : kMostLogged;
  return checksum_words(sums ^ response.logged, reinterpret_cast<const uint32_t*>(response.log), logged * (sizeof(StageEvent) / 4));
}

}  // namespace vitro::hexagon
