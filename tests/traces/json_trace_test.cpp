#include "traces/json_trace.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "engine/base/file.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {
namespace {

using Json = nlohmann::json;

std::vector<Json> events_of(const JsonTrace& trace, std::string_view phase) {
  std::vector<Json> out;
  const Json all = Json::parse(trace.json());
  for (const Json& event : all["traceEvents"]) {
    if (event["ph"] == phase) out.push_back(event);
  }
  return out;
}

TEST(JsonTrace, keeps_picoseconds_in_the_digits_of_its_microseconds) {
  JsonTrace trace("t");
  trace.span(trace.track("units", "cpu0"), Picoseconds(1'234'567'890'123), Picoseconds(1'234'567'890'124), "add", "");
  EXPECT_NE(trace.json().find("\"ts\":1234567.890123,\"dur\":0.000001"), std::string::npos) << trace.json();
}

TEST(JsonTrace, the_same_pair_is_the_same_track) {
  JsonTrace trace("t");
  EXPECT_EQ(trace.track("a", "b"), trace.track("a", "b"));
  EXPECT_NE(trace.track("a", "b"), trace.track("b", "a"));
}

TEST(JsonTrace, names_of_processes_and_threads_do_not_depend_on_who_asked_first) {
  JsonTrace one("t"), two("t");
  const TrackId a = one.track("units", "cpu0"), b = one.track("storage", "flash");
  const TrackId d = two.track("storage", "flash"), c = two.track("units", "cpu0");
  one.span(a, Picoseconds(1), Picoseconds(2), "x", "");
  one.span(b, Picoseconds(5), Picoseconds(6), "y", "");
  two.span(d, Picoseconds(5), Picoseconds(6), "y", "");
  two.span(c, Picoseconds(1), Picoseconds(2), "x", "");
  EXPECT_EQ(one.json(), two.json());
  EXPECT_EQ(events_of(one, "M").size(), 4u);
}

// A read of 4 KiB into a block of memory, and a kernel that reads it or another one.
struct Traced {
  Lease memory{std::make_shared<Block>(Block{.size = 8192, .id = 7})};
  KernelCall kernel(Bytes offset) const {
    KernelCall call;
    call.op = ops::Matmul{};
    View weights;
    weights.memory = memory;
    weights.offset = offset;
    weights.shape = {16, 64, 0};
    call.in = {weights};
    return call;
  }
  void run(TraceFile& trace) const {
    const TrackId steps = trace.track("policy", "steps"), flash = trace.track("storage", "flash"), cpu = trace.track("units", "cpu0");
    trace.request(flash, Picoseconds(10'000), Picoseconds(40'000), {false, 4096, 4096, &memory, 4096});
    trace.request(flash, Picoseconds(12'000), Picoseconds(45'000), {true, 0, 4096});
    trace.kernel(cpu, Picoseconds(45'000), Picoseconds(50'000), kernel(0));
    trace.kernel(cpu, Picoseconds(50'000), Picoseconds(60'000), kernel(4096));
    trace.kernel(cpu, Picoseconds(60'000), Picoseconds(70'000), kernel(4096));
    trace.span(steps, Picoseconds(0), Picoseconds(80'000), "decode", "");
  }
};

TEST(JsonTrace, a_flow_goes_from_the_step_to_the_read_and_to_the_first_kernel_that_takes_what_it_brought) {
  JsonTrace trace("t", {.flows = true}), without("t");
  Traced().run(trace);
  Traced().run(without);
  EXPECT_TRUE(events_of(without, "s").empty());
  EXPECT_EQ(events_of(without, "X"), events_of(trace, "X")) << "spans are the same";
  const std::vector<Json> begins = events_of(trace, "s"), goes = events_of(trace, "t"), ends = events_of(trace, "f");
  const std::vector<Json> spans = events_of(trace, "X");
  ASSERT_EQ(begins.size(), 1u);
  ASSERT_EQ(goes.size(), 1u);
  ASSERT_EQ(ends.size(), 1u);
  const auto in = [&](const Json& event) {  // the span that it is bound to
    for (const Json& span : spans) {
      const double at = event["ts"], begin = span["ts"], dur = span["dur"];
      if (span["pid"] == event["pid"] && span["tid"] == event["tid"] && at >= begin && at < begin + dur) return span;
    }
    return Json();
  };
  EXPECT_EQ(in(begins[0])["name"], "decode");
  EXPECT_EQ(in(goes[0])["args"]["detail"], "4096+4096");
  EXPECT_EQ(in(ends[0])["name"], "matmul");
  EXPECT_EQ(ends[0]["ts"], 0.05);
  EXPECT_EQ(begins[0]["id"], goes[0]["id"]);
  EXPECT_EQ(goes[0]["id"], ends[0]["id"]);
}

TEST(JsonTrace, spans_come_out_in_order_of_time_the_enclosing_one_first) {
  JsonTrace trace("t");
  const TrackId track = trace.track("policy", "decode");
  trace.span(track, Picoseconds(100), Picoseconds(200), "inner", "");
  trace.span(track, Picoseconds(100), Picoseconds(300), "outer", "");
  trace.span(track, Picoseconds(50), Picoseconds(60), "early", "");
  const std::vector<Json> spans = events_of(trace, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0]["name"], "early");
  EXPECT_EQ(spans[1]["name"], "outer");
  EXPECT_EQ(spans[2]["name"], "inner");
  EXPECT_EQ(spans[1]["tid"], spans[2]["tid"]);
}

// A viewer draws one stack per thread: what overlaps without nesting would be lost.
TEST(JsonTrace, spans_that_overlap_without_nesting_get_lanes_of_their_own) {
  JsonTrace trace("t");
  const TrackId track = trace.track("storage", "flash");
  trace.span(track, Picoseconds(0), Picoseconds(10), "a", "");
  trace.span(track, Picoseconds(5), Picoseconds(15), "b", "");
  trace.span(track, Picoseconds(10), Picoseconds(20), "c", "");
  const std::vector<Json> spans = events_of(trace, "X");
  EXPECT_NE(spans[0]["tid"], spans[1]["tid"]);
  EXPECT_EQ(spans[0]["tid"], spans[2]["tid"]);
  std::set<std::string> names;
  for (const Json& event : events_of(trace, "M")) {
    if (event["name"] == "thread_name") names.insert(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::set<std::string>{"flash", "flash (2)"}));
}

TEST(JsonTrace, counters_and_details_survive_with_odd_text) {
  JsonTrace trace("a \"quoted\" \\ name");
  trace.counter(trace.track("cache", "resident"), Picoseconds(2'000'000), 0.5);
  trace.span(trace.track("units", "npu"), Picoseconds(0), Picoseconds(1), "x\ny", "layer 3\t\xff");
  const std::vector<Json> counters = events_of(trace, "C");
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0]["name"], "resident");
  EXPECT_EQ(counters[0]["args"]["value"], 0.5);
  EXPECT_EQ(counters[0]["ts"], 2.0);
  EXPECT_EQ(events_of(trace, "X")[0]["name"], "x\ny");
}

TEST(JsonTrace, a_cut_trace_says_so) {
  JsonTrace trace("t", {3, 2});
  const TrackId track = trace.track("units", "cpu0");
  for (int i = 0; i < 10; ++i) {
    trace.span(track, Picoseconds(i), Picoseconds(i + 1), "x", "");
    trace.decision("evict", std::to_string(i), "dram");
  }
  EXPECT_EQ(trace.dropped_events(), 7u);
  EXPECT_EQ(trace.dropped_decisions(), 8u);
  EXPECT_EQ(events_of(trace, "X").size(), 3u);
  EXPECT_EQ(Json::parse(trace.json())["otherData"]["dropped_events"], 7);
  EXPECT_NE(trace.json().find("trace cut: 7 later events"), std::string::npos);
  EXPECT_NE(trace.decisions_jsonl().find("8 later decisions were dropped"), std::string::npos);
}

TEST(JsonTrace, the_decision_log_keeps_the_order_of_the_plan) {
  JsonTrace trace("t");
  trace.decision("load", "blk.3.ffn_up 128+64", "cold");
  trace.decision("evict", "blk.0 \"x\"", "dram");
  EXPECT_EQ(trace.decisions_jsonl(),
            "{\"n\":0,\"kind\":\"load\",\"what\":\"blk.3.ffn_up 128+64\",\"where\":\"cold\"}\n"
            "{\"n\":1,\"kind\":\"evict\",\"what\":\"blk.0 \\\"x\\\"\",\"where\":\"dram\"}\n");
}

TEST(JsonTrace, workers_may_report_at_once) {
  JsonTrace trace("t");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&trace, t] {
      const TrackId track = trace.track("units", "cpu" + std::to_string(t));
      for (int i = 0; i < 1000; ++i) trace.span(track, Picoseconds(i), Picoseconds(i + 1), "add", std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(events_of(trace, "X").size(), 4000u);
}

TEST(JsonTrace, files_hold_what_the_strings_hold) {
  const std::string folder = "vitro-trace-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  JsonTrace trace("t");
  trace.span(trace.track("units", "cpu0"), Picoseconds(1), Picoseconds(2), "x", "");
  trace.decision("load", "a", "b");
  trace.finish(folder);
  EXPECT_EQ(read_text(folder + "/trace.json"), trace.json());
  EXPECT_EQ(read_text(folder + "/decisions.jsonl"), trace.decisions_jsonl());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vitro
