/* mc2's C interface: plans that cut fused matmul + collective operators into blocks, and runs of them.
 *
 * docs/embedding.md shows a whole program. The rules, which hold for every call unless it says otherwise:
 *
 * Errors    Every call returns an mc2_status: MC2_OK, or what kind of failure it was; mc2_last_error() then has the
 *           text. Outputs are written on success only. No exception and no C++ type crosses this interface; nothing
 *           here aborts the process.
 * Handles   A handle is a checked number, not an address: NULL, a freed handle, one of another kind or any other
 *           value is MC2_ERROR_HANDLE. mc2_free_X(NULL) does nothing. What a call still uses in another thread is
 *           released when that call ends.
 * Strings   UTF-8, ended by 0. Those that are handed out belong to the handle they came from and end with it.
 * Structs   Begin with their size and version: declare them with MC2_INIT(type), which leaves every field 0, and 0 is
 *           every field's default unless it says otherwise. A program compiled with an older header passes a smaller
 *           struct and gets defaults for the rest. A larger one, of a newer header, is taken if all that this library
 *           does not know is 0.
 * Threads   Calls may be made by any thread at once, on the same handle, too. Exceptions are named.
 * fork()    A context, communicator, prepared run or store that was opened before it is refused in the child
 *           (MC2_ERROR_FORK), which opens its own. Plans, models and machines stay usable. Once a process has opened
 *           a context with a service over http or https, its children ask none over these, but through Unix sockets.
 */
#ifndef MC2_H
#define MC2_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MC2_API __attribute__((visibility("default")))
#else
#define MC2_API
#endif

/* Rises when a struct's known fields change their meaning, which is a break: libmc2.so gets another number then, too.
 */
#define MC2_STRUCT_VERSION 1

#ifdef __cplusplus
#define MC2_INIT(type)                  \
  [] {                                  \
    type fresh{};                       \
    fresh.size = sizeof(type);          \
    fresh.version = MC2_STRUCT_VERSION; \
    return fresh;                       \
  }()
extern "C" {
#else
#define MC2_INIT(type) \
  { .size = sizeof(type), .version = MC2_STRUCT_VERSION }
#endif

/* ---- Errors ---- */

/* Values are never changed or reused. */
typedef int32_t mc2_status;
enum {
  MC2_OK = 0,
  MC2_ERROR_INVALID_SPEC = 1,   /* a size, type, option or argument outside its legal values */
  MC2_ERROR_UNKNOWN_NAME = 2,   /* a kind, type, backend, strategy or variant that does not exist */
  MC2_ERROR_INFEASIBLE = 3,     /* the request is legal but no plan satisfies it */
  MC2_ERROR_OUT_OF_RANGE = 4,   /* a model was asked outside what it was fitted for */
  MC2_ERROR_STALE = 5,          /* a plan or measurement of another machine, driver or library version */
  MC2_ERROR_NOT_FOUND = 6,      /* nothing kept under that key */
  MC2_ERROR_MALFORMED = 7,      /* a document that cannot be read or violates its schema */
  MC2_ERROR_CANNOT_FIT = 8,     /* samples that no cost curve can be fitted to */
  MC2_ERROR_UNSUPPORTED = 9,    /* this build or this machine cannot do it */
  MC2_ERROR_CORRUPT = 10,       /* kept content that fails its checksum */
  MC2_ERROR_NEWER_VERSION = 11, /* a document, store or struct of a newer mc2 */
  MC2_ERROR_READ_ONLY = 12,     /* a write to something that is open read-only */
  MC2_ERROR_CANCELLED = 13,
  MC2_ERROR_MISMATCH = 14,   /* content that is not what its digest says */
  MC2_ERROR_UNREADABLE = 15, /* kept content that may not be read */
  MC2_ERROR_SYSTEM = 100,    /* a library, device, file or deadline failed */
  MC2_ERROR_HANDLE = 101,    /* a handle that is NULL, freed, of another kind or none at all */
  /* a struct whose size or version cannot be, or that asks for what this library does not know */
  MC2_ERROR_STRUCT = 102,
  MC2_ERROR_MEMORY = 103, /* not enough memory */
  MC2_ERROR_BUSY = 104,   /* another thread runs on the same communicator */
  MC2_ERROR_FORK = 105    /* the handle was opened before fork(), by the parent */
};

typedef struct mc2_error {
  size_t size;
  uint32_t version;
  mc2_status code;
  const char* name;    /* of the code, e.g. "invalid_spec" */
  const char* field;   /* what was wrong, e.g. "op.m"; "" where nothing can be named */
  const char* message; /* one line: what is wrong and what would be right */
} mc2_error;

/* The last failure of this thread's calls; MC2_OK and empty texts before any. Its strings end with the thread's next
 * failing call. */
MC2_API mc2_status mc2_last_error(mc2_error* error);

/* Stable lower-case name, e.g. "invalid_spec"; "unknown" for any other value. Never NULL. */
MC2_API const char* mc2_status_name(mc2_status status);

/* "MAJOR.MINOR.PATCH" of this library. */
MC2_API const char* mc2_version(void);

/* ---- Operators ---- */

/* Values of the enumerations below are never changed or reused. Semantics: docs/operators.md. */
enum {
  MC2_MATMUL_ALL_REDUCE = 1,
  MC2_MATMUL_REDUCE_SCATTER = 2,
  MC2_ALL_GATHER_MATMUL = 3,
  MC2_MATMUL_ALL_TO_ALL = 4,
  MC2_ALL_TO_ALL_MATMUL = 5,
  MC2_EMBEDDING_ALL_TO_ALL = 6,
  MC2_ALL_GATHER_GROUPED_MATMUL = 7,
  MC2_GROUPED_MATMUL_REDUCE_SCATTER = 8,
  MC2_GROUPED_MATMUL_ALL_REDUCE = 9
};

enum { MC2_F32 = 1, MC2_F16 = 2, MC2_BF16 = 3, MC2_I8 = 4, MC2_F8E4M3 = 5 };

enum { MC2_POOLING_SUM = 1, MC2_POOLING_MEAN = 2 };

/* What the rows of C are divided by to make a second result. */
enum { MC2_NORM_NONE = 0, MC2_NORM_RMS = 1 };

/* One problem: A [m, k] x B [k, n] of one rank, row-major, and what the ranks then exchange. */
typedef struct mc2_op_spec {
  size_t size;
  uint32_t version;
  int32_t kind;       /* MC2_MATMUL_ALL_REDUCE, ...; must be given */
  int64_t m, n, k;    /* must be given */
  int32_t dtype;      /* of A and B: MC2_F32, ...; must be given */
  int32_t world_size; /* must be given */
  int32_t has_bias, has_residual;
  int64_t table_count, table_rows; /* of MC2_EMBEDDING_ALL_TO_ALL, else 0 */
  int32_t pooling;                 /* of MC2_EMBEDDING_ALL_TO_ALL: 0 is MC2_POOLING_SUM */
  int32_t norm;                    /* MC2_NORM_RMS: of kinds that sum; 0 for none */
  int64_t experts_per_rank;        /* of the all-to-all kinds: B is as many matrices [k, n]; 0 for one */
  int64_t expert_count, top_k;     /* of grouped matmuls: B is as many matrices, of which each row chooses top_k */
} mc2_op_spec;

/* Bytes of one rank's operands; 0 for those that the operator has not. Equal splits, where rows are split over the
 * ranks. */
typedef struct mc2_operand_sizes {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  int64_t a_bytes, b_bytes, c_bytes, bias_bytes, residual_bytes, a_scales_bytes, b_scales_bytes;
  int64_t gathered_a_bytes; /* of kinds that gather A, if wanted: A of all ranks, [m, k] */
  int64_t norm_weight_bytes, normed_bytes;
} mc2_operand_sizes;

MC2_API mc2_status mc2_operands(const mc2_op_spec* op, mc2_operand_sizes* sizes);

/* ---- Machines ---- */

/* What makes a plan this machine's: devices, link, ranks, library versions. */
typedef struct mc2_machine mc2_machine;

/* What ranks run on. */
typedef struct mc2_communicator_options {
  size_t size;
  uint32_t version;
  int32_t world_size;          /* must be given */
  const char* backend;         /* NULL: "host" */
  const char* link;            /* NULL: "shm"; or an emulated one, "2.5Gbit,20us" or "tcp:2.5Gbit" */
  const char* virtual_compute; /* NULL: the machine's own; or "90Gflops,10us" */
  uint32_t deadline_ms;        /* of one run, which fails then; 0: 60000 */
  int32_t no_pinning;          /* 1: lanes are not pinned to cores */
  /* The caller's communicators of the collective library (ncclComm_t), by rank, which must outlive what is opened; or
   * NULL, 0. */
  void* const* native_communicators;
  size_t native_communicator_count;
  /* One process per rank (backend cuda): the same text in every process of this world, and in those of no other; NULL:
   * this process holds every rank. Opening, preparing and running are collective over the processes then. */
  const char* process_key;
  int32_t process_rank; /* of this process; with process_key */
  int32_t reserved;     /* 0 */
  /* Where rank 0 waits for the others, "host:port", when processes are on several hosts: they reach one another by NCCL
   * alone. NULL: all are on this host. The rest is this process's place among those of its host, whose device of that
   * number it has. */
  const char* rank_zero;
  int32_t local_rank;
  int32_t local_size;
} mc2_communicator_options;

/* The machine that a communicator with these options would run on; opens none. */
MC2_API mc2_status mc2_machine_of(const mc2_communicator_options* options, mc2_machine** machine);
/* From a fingerprint document (schemas/fingerprint.schema.json). */
MC2_API mc2_status mc2_machine_from_json(const char* json, size_t length, mc2_machine** machine);
MC2_API mc2_status mc2_machine_to_json(const mc2_machine* machine, const char** json, size_t* length);
MC2_API mc2_status mc2_free_machine(mc2_machine* machine);

/* ---- Models and plans ---- */

/* What blocks cost on a machine (schemas/cost_model.schema.json). */
typedef struct mc2_model mc2_model;

MC2_API mc2_status mc2_model_from_json(const char* json, size_t length, mc2_model** model);
/* From published costs of a device that nobody measured here, e.g. "ascend-910b": docs/cost_model.md, Published
 * devices. mc2_store_get_device_model() also takes what was imported for it. */
MC2_API mc2_status mc2_model_of_device(const char* device, const mc2_op_spec* op, mc2_model** model);
/* From the description of a cluster (schemas/topology.schema.json), or the name of a published one, e.g. "dgx_h100". */
MC2_API mc2_status mc2_model_of_topology(const char* json, size_t length, const mc2_op_spec* op, mc2_model** model);
MC2_API mc2_status mc2_model_to_json(const mc2_model* model, const char** json, size_t* length);
MC2_API mc2_status mc2_free_model(mc2_model* model);

/* A decision: how an operator is cut, and why (schemas/plan.schema.json). */
typedef struct mc2_plan mc2_plan;

typedef struct mc2_plan_options {
  size_t size;
  uint32_t version;
  int32_t allow_small_gain;  /* 1: cut even when the curves' intervals can explain the gain */
  const char* strategy;      /* NULL: "search"; or "free", "formula", "wave_groups" */
  int64_t alignment;         /* long blocks are multiples of it; 0: the backend's */
  int64_t min_block_length;  /* 0: the alignment */
  int64_t max_block_count;   /* 0: 64, or 1 where the backend does not cut the operator */
  double objective_quantile; /* 0: 0.5, the expected makespan */
  /* What the model's slow-downs of lanes that work at once are taken for, at least 1; both 0: what the model says. */
  double compute_contention, communication_contention;
  double block_overhead_us;   /* what a block costs in each lane beside its curve; with has_block_overhead */
  int32_t has_block_overhead; /* 0: what the model says */
  int32_t reserved;           /* 0 */
  /* Of the all-to-all kinds: rows that every rank sends every other and itself, [from, to], those of all experts of a
   * rank together; NULL, 0: equally many. Of up to 256 routings, one behind the other: what is best in their mean. */
  const int64_t* counts;
  size_t count_count; /* the world size squared, for each routing */
} mc2_plan_options;

/* Plans from a model. @param options NULL: defaults */
MC2_API mc2_status mc2_plan_from_model(const mc2_model* model, const mc2_op_spec* op, const mc2_plan_options* options,
                                       mc2_plan** plan);
/* One block, matmul and collective one after the other: correct everywhere, for a program without a plan. */
MC2_API mc2_status mc2_plan_uncut(const mc2_op_spec* op, const mc2_machine* machine, mc2_plan** plan);
MC2_API mc2_status mc2_plan_from_json(const char* json, size_t length, mc2_plan** plan);
/* The canonical document; its SHA-256 is the plan's digest. */
MC2_API mc2_status mc2_plan_to_json(const mc2_plan* plan, const char** json, size_t* length);
MC2_API mc2_status mc2_free_plan(mc2_plan* plan);

enum { MC2_CUT_ROWS = 1, MC2_CUT_COLUMNS = 2 };
enum { MC2_BOUND_COMPUTE = 1, MC2_BOUND_COMMUNICATION = 2 };

typedef struct mc2_plan_summary {
  size_t size;
  uint32_t version;
  /* what block lengths count: MC2_CUT_ROWS, of a rank's shard where ranks hold shards, or MC2_CUT_COLUMNS */
  int32_t cut_axis;
  int64_t block_count;
  int32_t is_local_first; /* a rank's own shard is multiplied while the others arrive */
  int32_t bound;
  /* predicted, with its 90 % interval; 0 of an uncut plan made without a model */
  double makespan_us, makespan_low_us, makespan_high_us;
  double serial_us, compute_us, communication_us, ideal_us; /* predicted, uncut */
  const char* variant;                                      /* e.g. "direct" or "nccl(ctas=8)" */
  const char* strategy;
  const char* provenance; /* of the predicted makespan: "measured", "interpolated", "extrapolated" or "analytic" */
  const char* reason;     /* why this cut */
  const char* source;     /* where mc2_find_plan() found it; "" of others */
  const char* digest;     /* of its document */
  size_t miss_count;      /* places asked before the one that had it */
  /* measured in a race: medians of as many pairs of fused and serial runs. The benefit is 1 - fused/serial, between the
   * ends of its interval (95 %). 0 and "" of a plan that was not raced. */
  double measured_fused_us, measured_serial_us;
  double measured_benefit, measured_benefit_low, measured_benefit_high;
  int64_t measured_pair_count;
  const char* measured_at; /* e.g. "2026-11-27T22:07:31Z"; "" where no clock was asked */
} mc2_plan_summary;

MC2_API mc2_status mc2_plan_summarize(const mc2_plan* plan, mc2_plan_summary* summary);
/* Block lengths in execution order, as many as fit. @param lengths NULL where capacity is 0 @param count of all blocks
 */
MC2_API mc2_status mc2_plan_blocks(const mc2_plan* plan, int64_t* lengths, size_t capacity, size_t* count);
MC2_API mc2_status mc2_plan_op(const mc2_plan* plan, mc2_op_spec* op);
/* Why the index-th place that was asked had no plan. MC2_ERROR_OUT_OF_RANGE past the last. */
MC2_API mc2_status mc2_plan_miss(const mc2_plan* plan, size_t index, const char** reason);

/* ---- Finding plans ---- */

/* Where plans are looked for, and those that were found. */
typedef struct mc2_context mc2_context;

/* level: 1 error, 2 warning, 3 info, 4 debug; `line` ends with the call. Called by any thread; must not throw or call
 * mc2. */
typedef void (*mc2_log_function)(void* user, int32_t level, const char* line);

enum {
  MC2_CONTEXT_NO_ENVIRONMENT = 1, /* MC2_STORE, MC2_SERVER, MC2_LOG, ... are not read */
  MC2_CONTEXT_DISABLED = 2,       /* every plan is uncut, as with MC2_DISABLE=1 */
  MC2_CONTEXT_NO_TRANSFER = 4     /* no plan from a model of another n and k */
};

/* Places are asked in the order files, service, store, models; the first that has a plan answers. What is given here
 * comes before what the environment says. */
typedef struct mc2_context_options {
  size_t size;
  uint32_t version;
  uint32_t flags;
  const char* store;        /* made when missing. NULL: the environment's; "": none */
  const char* server_url;   /* NULL: the environment's; "": none */
  const char* server_token; /* NULL: the environment's */
  const char* server_ca;    /* PEM file; NULL: the environment's */
  uint32_t server_wait_ms;  /* longest wait for the service in one call; 0: 30 */
  uint32_t refresh_ms;      /* a plan that was found so long ago is looked up anew; 0: 30000 */
  const char* const* plan_files;
  size_t plan_file_count;
  const mc2_model* const* models; /* asked before those in the store; may be freed after the call */
  size_t model_count;
  mc2_log_function log; /* NULL: standard error, as much as MC2_LOG says */
  void* log_user;
} mc2_context_options;

/* Opens the store and reads the files. @param options NULL: all from the environment */
MC2_API mc2_status mc2_context_create(const mc2_context_options* options, mc2_context** context);
/* The plan for an operator on a machine. The first time a question is asked this may take the service's wait and a
 * millisecond to plan; later times, 1 us. Never measures. MC2_ERROR_NOT_FOUND with every place's reason: run
 * mc2_plan_uncut(). */
MC2_API mc2_status mc2_find_plan(const mc2_context* context, const mc2_op_spec* op, const mc2_machine* machine,
                                 mc2_plan** plan);
MC2_API mc2_status mc2_free_context(mc2_context* context);

/* ---- Plans as a function of m ---- */

/* One rule for each of few ranges of m, for programs whose m changes from call to call. */
typedef struct mc2_plan_ranges mc2_plan_ranges;

/* The plans of every m from first_m to op->m, by the models of the context: some 0.2 to 1.4 s for 16384 m. No m is
 * predicted more than 1 % slower than by its best cut. Never measures; tuned plans, each of one m, are passed over. */
MC2_API mc2_status mc2_find_plan_ranges(const mc2_context* context, const mc2_op_spec* op, int64_t first_m,
                                        const mc2_machine* machine, mc2_plan_ranges** ranges);
/* What `mc2 plan --m first:last --out FILE` writes. */
MC2_API mc2_status mc2_plan_ranges_from_json(const char* json, size_t length, mc2_plan_ranges** ranges);
MC2_API mc2_status mc2_plan_ranges_to_json(const mc2_plan_ranges* ranges, const char** json, size_t* length);

/* The blocks of one m: block_count of block_length, and one of odd_length before or behind them where that is not 0. */
typedef struct mc2_block_split {
  size_t size;
  uint32_t version;
  int32_t cut_axis; /* what lengths count, as in mc2_plan_summary */
  int32_t is_odd_first;
  int64_t block_length, block_count, odd_length;
} mc2_block_split;

/* Allocates nothing, takes no lock. MC2_ERROR_NOT_FOUND for an m that no range covers. */
MC2_API mc2_status mc2_plan_ranges_split(const mc2_plan_ranges* ranges, int64_t m, mc2_block_split* split);
/* The plan of one m, without times: for mc2_prepare(). */
MC2_API mc2_status mc2_plan_ranges_plan(const mc2_plan_ranges* ranges, int64_t m, mc2_plan** plan);
MC2_API mc2_status mc2_free_plan_ranges(mc2_plan_ranges* ranges);

/* ---- Running ---- */

/* The ranks that this process holds, with their threads, memory and links. */
typedef struct mc2_communicator mc2_communicator;
/* A plan bound to buffers. */
typedef struct mc2_prepared mc2_prepared;

MC2_API mc2_status mc2_communicator_open(const mc2_communicator_options* options, mc2_communicator** communicator);
MC2_API mc2_status mc2_communicator_machine(const mc2_communicator* communicator, mc2_machine** machine);
/* Ranks of this process, in the order in which buffers and streams are passed. @param count of all of them */
MC2_API mc2_status mc2_communicator_ranks(const mc2_communicator* communicator, int32_t* ranks, size_t capacity,
                                          size_t* count);
/* What was prepared on it keeps it. */
MC2_API mc2_status mc2_free_communicator(mc2_communicator* communicator);

enum { MC2_INDEX_I32 = 1, MC2_INDEX_I64 = 2 };

/* One rank's matrices in memory of its device, row-major and dense, as mc2_operands() says; absent ones NULL, 0. They
 * must outlive the mc2_prepared. C, the gathered A and the normalised rows must overlap nothing else. An address with 0
 * bytes is refused unless 0 is right: bags that name no rows, unequal splits that give a rank none. */
typedef struct mc2_buffers {
  size_t size;
  uint32_t version;
  int32_t bag_index_type; /* 0: MC2_INDEX_I64 */
  const void* a;
  size_t a_bytes;
  const void* b; /* weights: read while preparing at the latest where a backend packs them */
  size_t b_bytes;
  void* c;
  size_t c_bytes;
  const void* bias;
  size_t bias_bytes;
  const void* residual;
  size_t residual_bytes;
  const void* a_scales;
  size_t a_scales_bytes;
  const void* b_scales;
  size_t b_scales_bytes;
  const void* bag_offsets; /* of MC2_EMBEDDING_ALL_TO_ALL */
  size_t bag_offsets_bytes;
  const void* bag_indices;
  size_t bag_indices_bytes;
  const int64_t* send_counts; /* unequal splits of the all-to-all kinds; NULL: equal ones */
  const int64_t* receive_counts;
  size_t count_count; /* of each of the two: the experts of all ranks, or 0 */
  /* of kinds that gather A: where every run puts A of all ranks; NULL on a rank that does not want it */
  void* gathered_a;
  size_t gathered_a_bytes;
  const void* norm_weight; /* one number per column */
  size_t norm_weight_bytes;
  void* normed; /* where every run puts the normalised rows of C */
  size_t normed_bytes;
  double norm_epsilon; /* added to the mean of a row's squares; 0: 1e-6 */
  /* Backend cuda, instead of the counts above: what the rank sends, int64_t for the experts of all ranks, in memory of
   * its device, read by every run. A, C and the residual then have room for m rows. */
  const void* device_send_counts;
  size_t device_send_counts_bytes;
  /* Of grouped matmuls: the experts that each of the m rows chose, [m, top_k], all rows' on every rank; and, of kinds
   * that sum, what each product counts times, [m, top_k] of f32. May be refilled between runs. */
  const void* choice_experts;
  size_t choice_experts_bytes;
  const void* choice_weights;
  size_t choice_weights_bytes;
  int32_t choice_index_type; /* 0: MC2_INDEX_I64 */
  int32_t reserved;
} mc2_buffers;

typedef struct mc2_prepare_options {
  size_t size;
  uint32_t version;
  int32_t accept_other_machine; /* 1: run a plan that was made for another machine: correct, but perhaps slow */
} mc2_prepare_options;

/* Packs weights, builds kernels and allocates everything that a run needs.
 * MC2_ERROR_STALE for a plan of another machine; MC2_ERROR_INVALID_SPEC for buffers that are not the plan's shapes.
 * Collective over processes. @param buffers one per rank of this process, all of one size @param options NULL: defaults
 */
MC2_API mc2_status mc2_prepare(mc2_communicator* communicator, const mc2_plan* plan, const mc2_buffers* buffers,
                               size_t count, const mc2_prepare_options* options, mc2_prepared** prepared);

enum {
  MC2_RUN_FUSED = 1, /* the plan: both lanes at once */
  MC2_RUN_SERIAL = 2 /* one lane after the other, to compare with */
};

typedef struct mc2_run_times {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  double makespan_us; /* first start to last end over this process's ranks */
  double wall_us;     /* the caller's wait */
} mc2_run_times;

/* Runs once and returns when every rank of this process has finished. Allocates nothing and takes no lock of mc2's.
 * Threads: one run at a time on a communicator; a second one gets MC2_ERROR_BUSY at once. Collective over processes.
 * MC2_ERROR_SYSTEM when a rank fails or the deadline passes; the communicator runs nothing more then. @param times may
 * be NULL */
MC2_API mc2_status mc2_run(mc2_prepared* prepared, int32_t mode, mc2_run_times* times);

/* Enqueues one fused run on the caller's streams (cudaStream_t), one per rank of this process, and returns without
 * waiting. Threads and errors as mc2_run(); MC2_ERROR_UNSUPPORTED from a backend without streams. @param eager 1:
 * kernel by kernel, not as a graph */
MC2_API mc2_status mc2_enqueue(mc2_prepared* prepared, void* const* streams, size_t count, int32_t eager);
MC2_API mc2_status mc2_free_prepared(mc2_prepared* prepared);

/* As mc2_find_plan(), on the communicator's machine, of a model that is first brought to the speed that the machine has
 * now: on random matrices the uncut matmul and the uncut collective run 5 times each, and for 50 ms. For predictions
 * beside which something is timed; tuned plans are passed over, and nothing is remembered. A communicator of several
 * processes is refused: MC2_ERROR_UNSUPPORTED. */
MC2_API mc2_status mc2_find_plan_anchored(const mc2_context* context, mc2_communicator* communicator,
                                          const mc2_op_spec* op, mc2_plan** plan);

/* ---- Collectives alone ---- */

/* Of processes of one machine, one rank each, through memory that they share. */
typedef struct mc2_collectives mc2_collectives;

typedef struct mc2_collectives_options {
  size_t size;
  uint32_t version;
  int32_t world_size;   /* must be given */
  const char* key;      /* the same text in every process of this world, and in those of no other; must be given */
  int32_t rank;         /* of this process */
  int32_t threads;      /* that may move a rank's data; the fewest of any rank; 0: 1 */
  uint32_t deadline_ms; /* for a rank that another waits for; 0: 60000 */
  int32_t reserved;     /* 0 */
} mc2_collectives_options;

/* Every call is collective, with the same sizes and types, and returns when this rank's result is there. Sums are made
 * in the order of the ranks, those of short floats in f32 and rounded once, those of MC2_I8 modulo 256: the same bits
 * on every rank. MC2_ERROR_INVALID_SPEC before anything is exchanged; MC2_ERROR_SYSTEM naming the rank that calls
 * something else, failed, ended or did not come, after which no call succeeds. Threads: one call at a time; a second
 * one gets MC2_ERROR_BUSY at once. */
MC2_API mc2_status mc2_collectives_open(const mc2_collectives_options* options, mc2_collectives** collectives);
/* In place. @param dtype MC2_F32, MC2_F16, MC2_BF16 or MC2_I8 */
MC2_API mc2_status mc2_all_reduce(mc2_collectives* collectives, void* data, size_t byte_count, int32_t dtype);
/* This rank's part of the sum. @param data world_size times as many bytes as own */
MC2_API mc2_status mc2_reduce_scatter(mc2_collectives* collectives, const void* data, void* own, size_t own_bytes,
                                      int32_t dtype);
/* Every rank's part, by rank. @param all world_size times as many bytes as own, which may be its own place there */
MC2_API mc2_status mc2_all_gather(mc2_collectives* collectives, const void* own, size_t own_bytes, void* all);
/* Part q goes to rank q. @param received what the ranks have sent, by rank; overlaps data nowhere */
MC2_API mc2_status mc2_all_to_all(mc2_collectives* collectives, const void* data, void* received, size_t byte_count);
MC2_API mc2_status mc2_free_collectives(mc2_collectives* collectives);

/* ---- Stores ---- */

/* A file with samples, models and plans, as `mc2 tune` keeps them. */
typedef struct mc2_store mc2_store;

/* @param read_only 0: made when missing */
MC2_API mc2_status mc2_store_open(const char* path, int32_t read_only, mc2_store** store);
/* Keeps a plan in place of an earlier one of its operator, machine and purpose. @param purpose NULL: "tuned", which
 * mc2_find_plan() finds */
MC2_API mc2_status mc2_store_put_plan(mc2_store* store, const mc2_plan* plan, const char* purpose);
MC2_API mc2_status mc2_store_get_plan(mc2_store* store, const mc2_op_spec* op, const mc2_machine* machine,
                                      const char* purpose, mc2_plan** plan);
MC2_API mc2_status mc2_store_put_model(mc2_store* store, const mc2_model* model);
/* The model of the operator, or of another length of its cut axis. */
MC2_API mc2_status mc2_store_get_model(mc2_store* store, const mc2_op_spec* op, const mc2_machine* machine,
                                       mc2_model** model);
/* Costs of a machine that is not here: what is published of it (mc2_model_of_device), overridden by what was imported
 * under its name (mc2 import), which alone answers for a device of which nothing is published; recalibrated by the cuts
 * that were measured there. */
MC2_API mc2_status mc2_store_get_device_model(mc2_store* store, const char* device, const mc2_op_spec* op,
                                              mc2_model** model);
MC2_API mc2_status mc2_free_store(mc2_store* store);

/* ---- Tuning ---- */

/* What a run of a prepared plan does. */
enum {
  MC2_PART_FUSED = 1,          /* the plan */
  MC2_PART_SERIAL = 2,         /* one lane after the other; asked of uncut plans only */
  MC2_PART_SERIAL_COMPUTE = 3, /* what MC2_PART_SERIAL multiplies, alone */
  MC2_PART_COMPUTE = 4,        /* the compute lane alone */
  MC2_PART_COMMUNICATION = 5   /* the communication lane alone */
};

/* What one measurement times: blocks of one lane alone, or of both lanes while both work. */
enum { MC2_TIME_MATMUL = 1, MC2_TIME_COLLECTIVE = 2, MC2_TIME_BOTH_LANES = 3 };

/* An operator where a program of yours runs and times it. Every function returns MC2_OK, or what mc2_tune_bench() then
 * returns, and is called by the thread that tunes. Times are of the slowest rank, above 0. */
typedef struct mc2_bench {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  void* user;
  const mc2_op_spec* op;
  const mc2_machine* machine;
  const char* const* variants; /* what is measured, best known default first; at least one */
  size_t variant_count;
  /* Makes a plan ready under this number. The plan lives until the tuning ends. */
  mc2_status (*prepare)(void* user, size_t number, const mc2_plan* plan);
  /* Runs it and compares its result with what is right; MC2_ERROR_MISMATCH where it is wrong. */
  mc2_status (*verify)(void* user, size_t number);
  /* Runs it once. @param us what a caller waits for */
  mc2_status (*time_us)(void* user, size_t number, int32_t part, double* us);
  /* Times the cut axis in blocks of one length. @param matmul_us, collective_us of ONE block; those of the other lane
   * need not be written */
  mc2_status (*time_blocks)(void* user, const char* variant, int32_t what, int64_t block_length, double* matmul_us,
                            double* collective_us);
  int64_t (*now_ns)(void* user); /* the clock that budgets are counted by; NULL: the system's steady one */
} mc2_bench;

typedef struct mc2_tune_options {
  size_t size;
  uint32_t version;
  int32_t max_sample_count;             /* of one block length; 0: 40 */
  const mc2_plan_options* plan_options; /* NULL: what fits the backend */
  double budget_s;                      /* of profiling and races together; 0: 60 */
  int32_t race_round_count;             /* pairs of each race; 0: until their intervals are narrow */
  int32_t reserved;                     /* 0 */
  const char* variant;                  /* plan with this variant only; NULL: any */
  const mc2_model* model;               /* taken instead of profiling; NULL: none */
  mc2_store* store;                     /* keeps samples, model, measurements and the plan, as "tuned" or, see below, as
                                           "tuned VARIANT OPTIONS"; NULL: nothing is kept. No other call uses it
                                           meanwhile */
  mc2_log_function log;                 /* told what is decided, level 3; NULL: nobody */
  int32_t (*is_cancelled)(void* user);  /* asked between runs: not 0 ends the tuning with MC2_ERROR_CANCELLED; NULL:
                                           never. What was complete by then is kept */
  void* user;                           /* of log and is_cancelled */
} mc2_tune_options;

/* What `mc2 tune` does, on random matrices: profiles, fits, plans, checks and races the best cuts against matmul and
 * collective one after the other, and keeps the winner, or "do not cut". Takes seconds to minutes. A communicator of
 * several processes is refused: MC2_ERROR_UNSUPPORTED. A plan of one variant, or of plan options that are not the
 * machine's own, is no answer of mc2_find_plan(): mc2_store_get_plan() finds it by its purpose, e.g. "tuned direct
 * max_block_count=4", and `mc2 plan` with the same options. @param options NULL: defaults */
MC2_API mc2_status mc2_tune(mc2_communicator* communicator, const mc2_op_spec* op, const mc2_tune_options* options,
                            mc2_plan** plan);
/* The same where the caller runs the operator. */
MC2_API mc2_status mc2_tune_bench(const mc2_bench* bench, const mc2_tune_options* options, mc2_plan** plan);

/* ---- Cuts that another program ran ---- */

/* A cut as a program of yours ran it: medians in us. An uncut time is 0 where it was not measured. */
typedef struct mc2_measured_cut {
  size_t size;
  uint32_t version;
  uint32_t run_count;     /* 0: 1 */
  const char* variant;    /* one of the model's; NULL: its only one */
  const int64_t* lengths; /* of the blocks, in execution order */
  size_t length_count;
  double fused_us;   /* must be given */
  double serial_us;  /* the uncut operator beside it */
  double compute_us; /* its matmul alone */
  double communication_us;
  double relative_error;    /* standard error of fused_us over fused_us; 0: not known, taken for 1 % */
  double compute_blocks_us; /* the cut's own blocks together, as they ran; 0: not timed */
  double communication_blocks_us;
} mc2_measured_cut;

/* What measured cuts tell of a machine. */
typedef struct mc2_refinement mc2_refinement;

enum {
  MC2_FACTOR_COMPUTE_SLOWDOWN = 1, /* of a lane while the other works */
  MC2_FACTOR_COMMUNICATION_SLOWDOWN = 2,
  MC2_FACTOR_BLOCK_OVERHEAD = 4
};

/* Intervals are of 90 %. */
typedef struct mc2_refinement_summary {
  size_t size;
  uint32_t version;
  uint32_t determined_factors; /* bits MC2_FACTOR_...: those of which the cuts say more than the model */
  double compute_slowdown, compute_slowdown_low, compute_slowdown_high;
  double communication_slowdown, communication_slowdown_low, communication_slowdown_high;
  double block_overhead_us, block_overhead_low_us, block_overhead_high_us;
  double serial_us;      /* measured, or else predicted */
  double relative_noise; /* standard error of the best cut's time over it */
  double expected_gain;  /* relative, by running the first of mc2_refinement_next() */
  int32_t is_serial_measured;
  int32_t reserved;
  size_t next_count; /* cuts to run next; 0: no further cut is expected to gain more than the noise */
  const char* text;  /* what was learnt, one sentence */
  /* How much longer the best cut's blocks take on a lane than the whole at once: measured where they were timed, else
   * by the model; 0: not to cut */
  double compute_expansion, communication_expansion;
} mc2_refinement_summary;

/* Learns from cuts that were run somewhere else, as `mc2 refine` does: docs/cost_model.md, Recalibration. `options`
 * bound the cuts to run next. @param cuts all of one size; NULL, 0: none yet, then mc2_refinement_next() says where to
 * begin @param options NULL: defaults */
MC2_API mc2_status mc2_refine(const mc2_model* model, const mc2_op_spec* op, const mc2_measured_cut* cuts, size_t count,
                              const mc2_plan_options* options, mc2_refinement** refinement);
MC2_API mc2_status mc2_refinement_summarize(const mc2_refinement* refinement, mc2_refinement_summary* summary);
/* To use now: the best cut that was measured, or "do not cut". */
MC2_API mc2_status mc2_refinement_plan(const mc2_refinement* refinement, mc2_plan** plan);
/* The recalibrated model, for other m. */
MC2_API mc2_status mc2_refinement_model(const mc2_refinement* refinement, mc2_model** model);
/* The index-th cut to run next, that which teaches most first. MC2_ERROR_OUT_OF_RANGE past the last. */
MC2_API mc2_status mc2_refinement_next(const mc2_refinement* refinement, size_t index, mc2_plan** plan);
MC2_API mc2_status mc2_free_refinement(mc2_refinement* refinement);

/* Keeps measured cuts under the name of a machine, as `mc2 import` does: for `mc2 refine` and `mc2 plan --device`.
 * Those that are kept already are not kept again. @param kept_count may be NULL */
MC2_API mc2_status mc2_store_put_measured_cuts(mc2_store* store, const char* device, const mc2_op_spec* op,
                                               const mc2_measured_cut* cuts, size_t count, size_t* kept_count);

#ifdef __cplusplus
}
#endif

#endif /* MC2_H */
