#include "engine/host/worker_thread.hpp"

#include <gmock/gmock.h>

#include "engine/host/host_executor.hpp"

namespace vitro {
namespace {

using testing::ElementsAre;

class WorkerThreads : public testing::TestWithParam<Picoseconds> {
 protected:
  HostExecutor clock_;
};

TEST_P(WorkerThreads, jobs_run_in_order_and_all_of_them_before_the_end) {
  std::vector<int> done;
  {
    WorkerThread<int> worker(clock_, GetParam(), [&](int job) { done.push_back(job); });
    for (int job = 0; job < 5; ++job) worker.post(job);
  }
  EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(WorkerThreads, a_thread_is_busy_until_its_job_has_been_carried_out) {
  std::mutex gate;
  std::unique_lock closed(gate);
  bool done = false;
  WorkerThread<int> worker(clock_, GetParam(), [&](int) {
    const std::scoped_lock lock(gate);
    done = true;
  });
  EXPECT_FALSE(worker.busy());
  worker.post(1);
  EXPECT_TRUE(worker.busy());
  closed.unlock();
  while (worker.busy()) std::this_thread::yield();
  EXPECT_TRUE(done);
}

INSTANTIATE_TEST_SUITE_P(spins, WorkerThreads, testing::Values(Picoseconds(0), Picoseconds(50'000'000)));

}  // namespace
}  // namespace vitro
