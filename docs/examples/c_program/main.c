/* A host program in C: it owns its matrices, and mc2 multiplies them and sums the products over the ranks, block by
 * block as a plan says.
 *
 *   c_program [LINK]        e.g. c_program 2.5Gbit,20us; without LINK the ranks share memory
 *
 * The program looks for a plan where MC2_STORE and MC2_SERVER say. If there is none, it runs the operator uncut.
 * To make a plan:
 *
 *   mc2 tune --m 512 --n 256 --k 128 --ranks 2 --link 2.5Gbit,20us
 *
 * Exit codes: 0 every sum is right, 1 a sum is wrong, 2 mc2 refused or failed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mc2.h"

enum { RANKS = 2, M = 512, N = 256, K = 128 };

/* Each rank r has A_r [M, K] and B_r [K, N]; afterwards C [M, N] = sum over r of A_r B_r on every rank. */
static float a[RANKS][M * K], b[RANKS][K * N], c[RANKS][M * N];

/* Ends the program if a call has failed. A real program would return the status to its caller. */
static void check(mc2_status status, const char* call) {
  mc2_error error = MC2_INIT(mc2_error);
  if (status == MC2_OK) return;
  mc2_last_error(&error);
  fprintf(stderr, "c_program: %s: %s%s%s (%s)\n", call, error.field, error.field[0] == '\0' ? "" : ": ",
          error.message, error.name);
  exit(2);
}

static mc2_op_spec the_operator(void) {
  mc2_op_spec op = MC2_INIT(mc2_op_spec);
  op.kind = MC2_MATMUL_ALL_REDUCE;
  op.m = M;
  op.n = N;
  op.k = K;
  op.dtype = MC2_F32;
  op.world_size = RANKS;
  return op;
}

/* Multiples of 1/8 between -1 and 1: every product and sum is exact in float, so the check needs no tolerance. */
static void fill(float* matrix, size_t count, size_t seed) {
  for (size_t i = 0; i < count; ++i) matrix[i] = (float)((i * 7 + i / 31 + seed * 5) % 17) / 8.0F - 1.0F;
}

/* Finds a plan for the operator on this machine. If there is none, makes the uncut plan, which has one block. */
static mc2_plan* choose_plan(const mc2_context* context, const mc2_machine* machine) {
  const mc2_op_spec op = the_operator();
  mc2_plan* plan = NULL;
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  if (mc2_find_plan(context, &op, machine, &plan) != MC2_OK) {
    mc2_error why = MC2_INIT(mc2_error);
    mc2_last_error(&why);
    printf("no plan (%s): running uncut\n", why.message);
    check(mc2_plan_uncut(&op, machine, &plan), "mc2_plan_uncut");
  }
  check(mc2_plan_summarize(plan, &summary), "mc2_plan_summarize");
  printf("%lld blocks, variant %s%s%s\n", (long long)summary.block_count, summary.variant,
         summary.source[0] == '\0' ? "" : ", from ", summary.source);
  return plan;
}

static mc2_prepared* prepare(mc2_communicator* communicator, const mc2_plan* plan) {
  mc2_buffers buffers[RANKS] = {MC2_INIT(mc2_buffers), MC2_INIT(mc2_buffers)};
  mc2_prepared* prepared = NULL;
  for (int rank = 0; rank < RANKS; ++rank) {
    fill(b[rank], (size_t)K * N, (size_t)rank); /* weights: mc2_prepare() packs them once */
    buffers[rank].a = a[rank];
    buffers[rank].a_bytes = sizeof a[rank];
    buffers[rank].b = b[rank];
    buffers[rank].b_bytes = sizeof b[rank];
    buffers[rank].c = c[rank];
    buffers[rank].c_bytes = sizeof c[rank];
  }
  check(mc2_prepare(communicator, plan, buffers, RANKS, NULL, &prepared), "mc2_prepare");
  return prepared;
}

/* Compares C with the definition, which naive loops compute. */
static int is_every_sum_right(void) {
  for (size_t row = 0; row < M; ++row)
    for (size_t column = 0; column < N; ++column) {
      float sum = 0;
      for (int rank = 0; rank < RANKS; ++rank)
        for (size_t l = 0; l < K; ++l) sum += a[rank][row * K + l] * b[rank][l * N + column];
      for (int rank = 0; rank < RANKS; ++rank)
        if (c[rank][row * N + column] != sum) return 0;
    }
  return 1;
}

int main(int argc, char** argv) {
  mc2_communicator_options options = MC2_INIT(mc2_communicator_options);
  mc2_communicator* communicator = NULL;
  mc2_machine* machine = NULL;
  mc2_context* context = NULL;
  int exit_code = 0;

  options.world_size = RANKS;
  options.link = argc > 1 ? argv[1] : NULL;
  check(mc2_communicator_open(&options, &communicator), "mc2_communicator_open");
  check(mc2_communicator_machine(communicator, &machine), "mc2_communicator_machine");
  check(mc2_context_create(NULL, &context), "mc2_context_create");
  printf("mc2 %s\n", mc2_version());

  mc2_plan* plan = choose_plan(context, machine);
  mc2_prepared* prepared = prepare(communicator, plan);
  for (size_t step = 0; step < 3 && exit_code == 0; ++step) {
    mc2_run_times times = MC2_INIT(mc2_run_times);
    for (int rank = 0; rank < RANKS; ++rank) fill(a[rank], (size_t)M * K, 100 + 10 * step + (size_t)rank);
    check(mc2_run(prepared, MC2_RUN_FUSED, &times), "mc2_run");
    exit_code = is_every_sum_right() ? 0 : 1;
    printf("step %zu: %.0f us, %s\n", step, times.makespan_us,
           exit_code == 0 ? "every sum is right" : "a sum is WRONG");
  }
  mc2_free_prepared(prepared);
  mc2_free_plan(plan);
  mc2_free_context(context);
  mc2_free_machine(machine);
  mc2_free_communicator(communicator);
  return exit_code;
}
