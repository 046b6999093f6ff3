/* mc2's C interface: plans that cut fused matmul + collective operators into blocks, and runs of them.
 *
 * docs/embedding.md shows a whole program. These rules hold for every call whose comment does not say otherwise:
 *
 * Errors    Every call returns an mc2_status: MC2_OK, or the kind of failure. After a failure mc2_last_error() gives
 *           the text. Outputs are written on success only. No exception and no C++ type crosses this interface, and no
 *           call aborts the process.
 * Handles   A handle is a checked number, not an address. A call that is given NULL, a freed handle, a handle of
 *           another kind or any other value returns MC2_ERROR_HANDLE. mc2_free_X(NULL) does nothing. An object that is
 *           freed while a call in another thread uses it is released when that call ends.
 * Strings   are UTF-8 and end with a 0 byte. A string that a call hands out belongs to the handle that it came from
 *           and is valid until that handle is freed.
 * Structs   begin with their size and version. Declare them with MC2_INIT(type), which sets every other field to 0; a
 *           field that is 0 has its default value, unless its comment says otherwise. A program that was compiled with
 *           an older header passes a smaller struct and gets defaults for the missing fields. A larger struct, from a
 *           newer header, is accepted if all bytes that this library does not know are 0.
 * Threads   Any thread may make any call at any time, also on a handle that another thread is using. Calls for which
 *           this is not so say it.
 * fork()    A child may free, but not use, a context, communicator, prepared run, store or mc2_collectives that its
 *           parent opened before fork(): calls return MC2_ERROR_FORK. The child opens its own. Plans, models and
 *           machines stay usable. Once a process has opened a context with a service over http or https, its
 *           children cannot ask a service over http or https, only one on a Unix socket.
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

/* Rises when an existing field of a struct changes its meaning. That breaks compatibility, so libmc2.so's version
 * number (its soname) changes, too. */
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

/* The values are never changed or reused in later versions. */
typedef int32_t mc2_status;
enum {
  MC2_OK = 0,
  MC2_ERROR_INVALID_SPEC = 1,   /* a size, type, option or argument outside its legal values */
  MC2_ERROR_UNKNOWN_NAME = 2,   /* a kind, type, backend, strategy or variant that does not exist */
  MC2_ERROR_INFEASIBLE = 3,     /* the request is legal but no plan satisfies it */
  MC2_ERROR_OUT_OF_RANGE = 4,   /* a size beyond those a model was fitted for, or an index past the last */
  MC2_ERROR_STALE = 5,          /* a plan or measurement of another machine, driver or library version */
  MC2_ERROR_NOT_FOUND = 6,      /* nothing is kept under that key, or no place has a plan */
  MC2_ERROR_MALFORMED = 7,      /* a document that cannot be read or violates its schema */
  MC2_ERROR_CANNOT_FIT = 8,     /* samples that no cost curve can be fitted to */
  MC2_ERROR_UNSUPPORTED = 9,    /* this build or this machine cannot do it */
  MC2_ERROR_CORRUPT = 10,       /* kept content that fails its checksum */
  MC2_ERROR_NEWER_VERSION = 11, /* a document, store or struct that a newer mc2 made */
  MC2_ERROR_READ_ONLY = 12,     /* a write to something that is open read-only */
  MC2_ERROR_CANCELLED = 13,     /* the caller's is_cancelled() ended the work */
  MC2_ERROR_MISMATCH = 14,      /* content that does not match its digest, or a wrong result of a run */
  MC2_ERROR_UNREADABLE = 15,    /* kept content that this process has no permission to read */
  MC2_ERROR_SYSTEM = 100,       /* a library, device, file or deadline failed */
  MC2_ERROR_HANDLE = 101,       /* a value that is NULL, a freed handle, a handle of another kind or no handle */
  /* a struct whose size or version is impossible, or that sets fields which this library does not know */
  MC2_ERROR_STRUCT = 102,
  MC2_ERROR_MEMORY = 103, /* not enough memory */
  /* another thread is using the same communicator or mc2_collectives; or a function that mc2 calls uses the store of
   * the call that it belongs to */
  MC2_ERROR_BUSY = 104,
  MC2_ERROR_FORK = 105 /* the handle was opened before fork(), by the parent */
};

typedef struct mc2_error {
  size_t size;
  uint32_t version;
  mc2_status code;
  const char* name;    /* mc2_status_name() of the code, e.g. "invalid_spec" */
  const char* field;   /* the argument or field that was wrong, e.g. "op.m"; "" where none can be named */
  const char* message; /* one line: what is wrong and what would be right */
} mc2_error;

/* Tells the last failure of the calling thread; code MC2_OK and no field and message if no call has failed. The strings
 * are valid until the thread's next failing call. */
MC2_API mc2_status mc2_last_error(mc2_error* error);

/* The status's lower-case name, e.g. "invalid_spec", which never changes; "unknown" for a value that is no status.
 * Never NULL. */
MC2_API const char* mc2_status_name(mc2_status status);

/* The version of this library, "MAJOR.MINOR.PATCH". */
MC2_API const char* mc2_version(void);

/* ---- Operators ---- */

/* The values of the enumerations below are never changed or reused. docs/operators.md says what each kind computes. */
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

/* The norm by which the rows of C are divided for a second result, the normalised rows. */
enum { MC2_NORM_NONE = 0, MC2_NORM_RMS = 1 };

/* One problem: the matmul A [m, k] x B [k, n] of one rank, row-major, and the collective before or after it. */
typedef struct mc2_op_spec {
  size_t size;
  uint32_t version;
  int32_t kind;       /* MC2_MATMUL_ALL_REDUCE, ...; must be given */
  int64_t m, n, k;    /* must be given */
  int32_t dtype;      /* element type of A and B: MC2_F32, ...; must be given */
  int32_t world_size; /* must be given */
  int32_t has_bias, has_residual;
  int64_t table_count, table_rows; /* only MC2_EMBEDDING_ALL_TO_ALL: tables of a rank, rows of each; else 0 */
  int32_t pooling;                 /* only MC2_EMBEDDING_ALL_TO_ALL; 0: MC2_POOLING_SUM */
  int32_t norm;                    /* MC2_NORM_RMS, only for kinds that sum over ranks; 0: none */
  int64_t experts_per_rank;        /* matmul with all-to-all: B is this many matrices [k, n]; 0: one */
  int64_t expert_count, top_k;     /* grouped matmuls: B is expert_count matrices; each row chooses top_k of them */
} mc2_op_spec;

/* Bytes of one rank's operands; 0 for an operand that the operator does not have. Where rows are split over the ranks,
 * the sizes are those of equal splits. */
typedef struct mc2_operand_sizes {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  int64_t a_bytes, b_bytes, c_bytes, bias_bytes, residual_bytes, a_scales_bytes, b_scales_bytes;
  int64_t gathered_a_bytes; /* kinds that gather A: the optional output for A of all ranks, [m, k] */
  int64_t norm_weight_bytes, normed_bytes;
} mc2_operand_sizes;

/* Tells the sizes of the buffers that mc2_prepare() expects for an operator. */
MC2_API mc2_status mc2_operands(const mc2_op_spec* op, mc2_operand_sizes* sizes);

/* ---- Machines ---- */

/* A machine's fingerprint: devices, link, number of ranks, library versions. A plan belongs to one machine. */
typedef struct mc2_machine mc2_machine;

/* How many ranks there are, and on which backend and link they run. */
typedef struct mc2_communicator_options {
  size_t size;
  uint32_t version;
  int32_t world_size;          /* must be given */
  const char* backend;         /* NULL: "host" */
  const char* link;            /* NULL: "shm", shared memory. "2.5Gbit,20us" or "tcp:2.5Gbit" emulates a link */
  const char* virtual_compute; /* NULL: real matmuls. "90Gflops,10us": the compute lane sleeps for a modelled time */
  uint32_t deadline_ms;        /* a run that takes longer fails; 0: 60000 */
  int32_t no_pinning;          /* 1: lanes are not pinned to cores */
  /* The caller's communicators of the collective library (ncclComm_t), one for each rank of this process, in order.
   * They must outlive the communicator that is opened. NULL, 0: the backend opens its own. Backend cuda only. */
  void* const* native_communicators;
  size_t native_communicator_count;
  /* NULL: this process holds every rank. Otherwise (backend cuda only) every rank is a process of its own, and all
   * processes of a world pass the same text, which no other world uses at the time. Opening, preparing and running are
   * then collective: every process calls them, in the same order. */
  const char* process_key;
  int32_t process_rank; /* the rank that this process holds; only with process_key */
  int32_t reserved;     /* 0 */
  /* NULL: all processes are on this host. Otherwise they are on several hosts and reach one another by NCCL alone; this
   * is the address, "host:port", where rank 0 waits for the others. */
  const char* rank_zero;
  int32_t local_rank; /* only with rank_zero: the number, on this host, of this process and of its device */
  int32_t local_size; /* only with rank_zero: the number of processes on this host */
} mc2_communicator_options;

/* The machine that a communicator with these options would run on. Opens no communicator. */
MC2_API mc2_status mc2_machine_of(const mc2_communicator_options* options, mc2_machine** machine);
/* Reads a fingerprint document (schemas/fingerprint.schema.json). */
MC2_API mc2_status mc2_machine_from_json(const char* json, size_t length, mc2_machine** machine);
MC2_API mc2_status mc2_machine_to_json(const mc2_machine* machine, const char** json, size_t* length);
MC2_API mc2_status mc2_free_machine(mc2_machine* machine);

/* ---- Models and plans ---- */

/* A cost model: what blocks cost on a machine (schemas/cost_model.schema.json). */
typedef struct mc2_model mc2_model;

MC2_API mc2_status mc2_model_from_json(const char* json, size_t length, mc2_model** model);
/* Makes a model from the published costs of a device, e.g. "ascend-910b", without a measurement (docs/cost_model.md,
 * Published devices). mc2_store_get_device_model() also uses costs that were imported for the device. */
MC2_API mc2_status mc2_model_of_device(const char* device, const mc2_op_spec* op, mc2_model** model);
/* Makes a model from the description of a cluster (schemas/topology.schema.json). Instead of the document, `json` may
 * be the name of a published cluster, e.g. "dgx_h100". */
MC2_API mc2_status mc2_model_of_topology(const char* json, size_t length, const mc2_op_spec* op, mc2_model** model);
MC2_API mc2_status mc2_model_to_json(const mc2_model* model, const char** json, size_t* length);
MC2_API mc2_status mc2_free_model(mc2_model* model);

/* A plan: the decision how an operator is cut into blocks, with its reasons (schemas/plan.schema.json). */
typedef struct mc2_plan mc2_plan;

typedef struct mc2_plan_options {
  size_t size;
  uint32_t version;
  int32_t allow_small_gain;  /* 1: cut even when the predicted gain lies within the cost curves' error intervals */
  const char* strategy;      /* NULL: "search"; or "free", "formula", "wave_groups" */
  int64_t alignment;         /* long blocks are multiples of this length; 0: the backend's alignment */
  int64_t min_block_length;  /* 0: the alignment */
  int64_t max_block_count;   /* 0: 64, or 1 where the backend does not cut the operator */
  double objective_quantile; /* which quantile of the predicted makespan is minimised; 0: 0.5, the expected makespan */
  /* Factors, at least 1, by which each lane slows down while the other works. They replace the model's own; both 0: the
   * model's are used. */
  double compute_contention, communication_contention;
  double block_overhead_us;   /* fixed cost of a block in each lane, in place of the model's; see has_block_overhead */
  int32_t has_block_overhead; /* 1: block_overhead_us is used; 0: the model's fixed costs are */
  int32_t reserved;           /* 0 */
  /* Matmul with all-to-all: how many rows each rank sends to each rank, itself included, [from, to]; the rows of all
   * experts of a rank are added up. NULL, 0: equal numbers. Up to 256 such tables (routings) may follow one another:
   * the cut is then the best in their mean or, if objective_quantile is not 0.5, in that quantile of them. */
  const int64_t* counts;
  size_t count_count; /* world_size * world_size for each table */
} mc2_plan_options;

/* Makes a plan with a model. @param options NULL: defaults */
MC2_API mc2_status mc2_plan_from_model(const mc2_model* model, const mc2_op_spec* op, const mc2_plan_options* options,
                                       mc2_plan** plan);
/* The uncut plan: one block, matmul and collective one after the other. It is correct on every machine; a program that
 * finds no plan runs it. MC2_ERROR_INVALID_SPEC for an operator and a machine of other numbers of ranks. */
MC2_API mc2_status mc2_plan_uncut(const mc2_op_spec* op, const mc2_machine* machine, mc2_plan** plan);
MC2_API mc2_status mc2_plan_from_json(const char* json, size_t length, mc2_plan** plan);
/* The plan's canonical document. The plan's digest is the SHA-256 of this text. */
MC2_API mc2_status mc2_plan_to_json(const mc2_plan* plan, const char** json, size_t* length);
MC2_API mc2_status mc2_free_plan(mc2_plan* plan);

enum { MC2_CUT_ROWS = 1, MC2_CUT_COLUMNS = 2 };
enum { MC2_BOUND_COMPUTE = 1, MC2_BOUND_COMMUNICATION = 2 };

typedef struct mc2_plan_summary {
  size_t size;
  uint32_t version;
  /* unit of block lengths: MC2_CUT_ROWS (rows of one rank's shard, where ranks hold shards) or MC2_CUT_COLUMNS */
  int32_t cut_axis;
  int64_t block_count;
  int32_t is_local_first; /* 1: a rank multiplies its own shard while the other shards arrive */
  int32_t bound;          /* MC2_BOUND_COMPUTE or MC2_BOUND_COMMUNICATION */
  /* predicted time of the fused operator and its 90 % interval; 0 for an uncut plan that was made without a model */
  double makespan_us, makespan_low_us, makespan_high_us;
  double serial_us, compute_us, communication_us, ideal_us; /* predicted times of the uncut operator */
  const char* variant;                                      /* e.g. "direct" or "nccl(ctas=8)" */
  const char* strategy;
  const char* provenance; /* of the predicted makespan: "measured", "interpolated", "extrapolated" or "analytic" */
  const char* reason;     /* why this cut was chosen */
  const char* source;     /* where mc2_find_plan() found the plan; "" for a plan from elsewhere */
  const char* digest;     /* SHA-256 of the plan's document */
  size_t miss_count;      /* number of places that were asked before and had no plan: see mc2_plan_miss() */
  /* Measured in a race of measured_pair_count pairs of one fused and one serial run: the medians of both, and the
   * benefit 1 - fused/serial with the ends of its 95 % interval. All 0 and "" for a plan that was not raced. */
  double measured_fused_us, measured_serial_us;
  double measured_benefit, measured_benefit_low, measured_benefit_high;
  int64_t measured_pair_count;
  const char* measured_at; /* UTC, e.g. "2026-11-27T22:07:31Z"; "" where the race had no calendar clock */
} mc2_plan_summary;

MC2_API mc2_status mc2_plan_summarize(const mc2_plan* plan, mc2_plan_summary* summary);
/* Writes the block lengths in execution order, at most `capacity` of them. @param lengths may be NULL if capacity is 0
 * @param count the number of all blocks of the plan */
MC2_API mc2_status mc2_plan_blocks(const mc2_plan* plan, int64_t* lengths, size_t capacity, size_t* count);
MC2_API mc2_status mc2_plan_op(const mc2_plan* plan, mc2_op_spec* op);
/* Why the index-th place that was asked had no plan, from 0 to below mc2_plan_summary.miss_count.
 * MC2_ERROR_OUT_OF_RANGE for a larger index. */
MC2_API mc2_status mc2_plan_miss(const mc2_plan* plan, size_t index, const char** reason);

/* ---- Finding plans ---- */

/* The places where plans are looked for, and a memory of the plans that were found. */
typedef struct mc2_context mc2_context;

/* Receives log lines. `level` is 1 (error), 2 (warning), 3 (info) or 4 (debug). `line` is valid during the call only.
 * Any thread may call the function, which must not throw or call mc2. */
typedef void (*mc2_log_function)(void* user, int32_t level, const char* line);

enum {
  MC2_CONTEXT_NO_ENVIRONMENT = 1, /* the environment variables MC2_STORE, MC2_SERVER, MC2_LOG, ... are not read */
  MC2_CONTEXT_DISABLED = 2,       /* every plan is uncut, as with MC2_DISABLE=1 */
  MC2_CONTEXT_NO_TRANSFER = 4     /* a model that was fitted for another n and k makes no plans */
};

/* Where a context looks. Places are asked in the order files, service, store, models; the first place that has a plan
 * answers. Values that are given here replace those of the environment. */
typedef struct mc2_context_options {
  size_t size;
  uint32_t version;
  uint32_t flags;
  const char* store;        /* path of the store file, which is made when missing; see mc2_context_create(). NULL: the
                               environment's; "": none */
  const char* server_url;   /* the plan service. NULL: the environment's; "": none */
  const char* server_token; /* NULL: the environment's */
  const char* server_ca;    /* PEM file of the service's certificates; NULL: the environment's */
  uint32_t server_wait_ms;  /* longest wait for the service in one call; 0: 30 */
  uint32_t refresh_ms;      /* a remembered plan that is this old is looked up anew; 0: 30000 */
  const char* const* plan_files; /* paths of plan documents */
  size_t plan_file_count;
  const mc2_model* const* models; /* used before the models in the store; may be freed after the call */
  size_t model_count;
  mc2_log_function log; /* NULL: lines go to standard error, as many as MC2_LOG says */
  void* log_user;
} mc2_context_options;

/* Opens the store and reads the plan files. A store that is damaged, that a newer mc2 made or that this process has no
 * permission to read is an error (MC2_ERROR_CORRUPT, MC2_ERROR_NEWER_VERSION, MC2_ERROR_UNREADABLE), whether options or
 * the environment name it and whatever other places there are: otherwise its plans would be missed unnoticed. Where no
 * store can be (a directory, a device, a missing file in a place that may not be written), it is left out with a
 * warning, and mc2_find_plan() names the reason. @param options NULL: everything comes from the environment */
MC2_API mc2_status mc2_context_create(const mc2_context_options* options, mc2_context** context);
/* The plan for an operator on a machine. The first call for an operator and machine may take as long as the wait for
 * the service, plus about a millisecond to plan; later calls take about 1 us. Nothing is ever measured.
 * MC2_ERROR_NOT_FOUND if no place has a plan; the message has every place's reason, and why a store was left out. The
 * program then runs mc2_plan_uncut(). */
MC2_API mc2_status mc2_find_plan(const mc2_context* context, const mc2_op_spec* op, const mc2_machine* machine,
                                 mc2_plan** plan);
/* A context that has asked a service over http or https leaves behind, until the process ends, the threads of the HTTP
 * library and their descriptors, about three of each. All contexts of a process share them. */
MC2_API mc2_status mc2_free_context(mc2_context* context);

/* ---- Plans as a function of m ---- */

/* Plans for a whole interval of m, as a few ranges with one cutting rule each: for programs whose m changes from call
 * to call. */
typedef struct mc2_plan_ranges mc2_plan_ranges;

/* Plans every m from first_m to op->m with the models of the context; this takes about 0.2 to 1.4 s for 16384 values of
 * m. first_m is at least 1. op->m is at most 65536; where m is shared among ranks (and experts of a rank), at most that
 * for each. At every m the predicted time is at most 1 % above that of the best cut for this m. Nothing is measured.
 * Tuned plans are not used, since each holds for one m only. No range covers an m without a model, such as up to 64
 * rows of matmul_all_reduce, which are cut by columns: there mc2_find_plan() may find a tuned plan, and
 * mc2_plan_uncut() always gives one. */
MC2_API mc2_status mc2_find_plan_ranges(const mc2_context* context, const mc2_op_spec* op, int64_t first_m,
                                        const mc2_machine* machine, mc2_plan_ranges** ranges);
/* Reads the document that `mc2 plan --m first:last --out FILE` writes. */
MC2_API mc2_status mc2_plan_ranges_from_json(const char* json, size_t length, mc2_plan_ranges** ranges);
MC2_API mc2_status mc2_plan_ranges_to_json(const mc2_plan_ranges* ranges, const char** json, size_t* length);

/* The blocks of one m: block_count blocks of block_length and, unless odd_length is 0, one block of odd_length. */
typedef struct mc2_block_split {
  size_t size;
  uint32_t version;
  int32_t cut_axis;     /* unit of the lengths, as in mc2_plan_summary */
  int32_t is_odd_first; /* 1: the block of odd_length is the first, 0: the last */
  int64_t block_length, block_count, odd_length;
} mc2_block_split;

/* The blocks of one m. Allocates nothing and takes no lock. MC2_ERROR_NOT_FOUND for an m that no range covers. */
MC2_API mc2_status mc2_plan_ranges_split(const mc2_plan_ranges* ranges, int64_t m, mc2_block_split* split);
/* The plan of one m, for mc2_prepare(). It has no predicted times. */
MC2_API mc2_status mc2_plan_ranges_plan(const mc2_plan_ranges* ranges, int64_t m, mc2_plan** plan);
MC2_API mc2_status mc2_free_plan_ranges(mc2_plan_ranges* ranges);

/* ---- Running ---- */

/* The ranks that this process holds, with their threads, memory and links. */
typedef struct mc2_communicator mc2_communicator;
/* A plan bound to buffers. */
typedef struct mc2_prepared mc2_prepared;

MC2_API mc2_status mc2_communicator_open(const mc2_communicator_options* options, mc2_communicator** communicator);
MC2_API mc2_status mc2_communicator_machine(const mc2_communicator* communicator, mc2_machine** machine);
/* Writes the ranks of this process, at most `capacity` of them, in the order in which buffers and streams are passed.
 * @param count the number of ranks of this process */
MC2_API mc2_status mc2_communicator_ranks(const mc2_communicator* communicator, int32_t* ranks, size_t capacity,
                                          size_t* count);
/* The communicator stays open until all that was prepared on it is freed, too. */
MC2_API mc2_status mc2_free_communicator(mc2_communicator* communicator);

enum { MC2_INDEX_I32 = 1, MC2_INDEX_I64 = 2 };

/* One rank's matrices in memory of its device, row-major and dense, of the sizes that mc2_operands() tells. Matrices
 * that the operator does not have are NULL, 0. The memory must outlive the mc2_prepared. The outputs (C, gathered_a,
 * normed) must not overlap any other buffer. An address with 0 bytes is refused, unless 0 is the right size: for bags
 * that name no rows, and where unequal splits give a rank no rows. */
typedef struct mc2_buffers {
  size_t size;
  uint32_t version;
  int32_t bag_index_type; /* 0: MC2_INDEX_I64 */
  const void* a;
  size_t a_bytes;
  const void* b; /* weights; a backend that packs weights reads them in mc2_prepare() only */
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
  const void* bag_offsets; /* MC2_EMBEDDING_ALL_TO_ALL: table_count * m + 1 numbers, where each bag's indices begin */
  size_t bag_offsets_bytes;
  const void* bag_indices; /* the rows that the bags name; an illegal one in a later run ends the communicator */
  size_t bag_indices_bytes;
  /* Unequal splits of a matmul with all-to-all: rows to each rank, at most m / ranks each; NULL: equal splits. */
  const int64_t* send_counts;
  const int64_t* receive_counts; /* rows from each rank */
  size_t count_count;            /* length of each of these two arrays: ranks times experts_per_rank, or 0 */
  /* kinds that gather A: every run writes A of all ranks here; NULL on a rank that does not want it */
  void* gathered_a;
  size_t gathered_a_bytes;
  const void* norm_weight; /* one number per column */
  size_t norm_weight_bytes;
  void* normed; /* every run writes the normalised rows of C here */
  size_t normed_bytes;
  double norm_epsilon; /* added to the mean of a row's squares; 0: 1e-6 */
  /* Backend cuda only, in place of send_counts and receive_counts: the rows that this rank sends to each expert of each
   * rank, as int64_t in memory of its device. Every run reads them anew. A, C and the residual then have room for m
   * rows. */
  const void* device_send_counts;
  size_t device_send_counts_bytes;
  /* Grouped matmuls: the experts that each of the m rows chose, [m, top_k], those of all rows on every rank. Grouped
   * matmuls that sum also have the weight of each choice, [m, top_k] of f32. Both may be refilled between runs. A run
   * that reads an expert which does not exist, or a weight that is not finite, fails and ends the communicator for
   * good: every later run on it fails, with legal choices, too. Check what you refill, or open another one. */
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
  int32_t accept_other_machine; /* 1: accept a plan that was made for another machine; it is correct, but may be slow */
} mc2_prepare_options;

/* Binds a plan to buffers: packs weights, builds kernels and allocates everything that a run needs.
 * MC2_ERROR_STALE for a plan of another machine; MC2_ERROR_INVALID_SPEC for buffers that do not have the plan's shapes.
 * Collective over the processes that hold ranks. @param buffers one per rank of this process; the `size` field is the
 * same in all @param options NULL: defaults */
MC2_API mc2_status mc2_prepare(mc2_communicator* communicator, const mc2_plan* plan, const mc2_buffers* buffers,
                               size_t count, const mc2_prepare_options* options, mc2_prepared** prepared);

enum {
  MC2_RUN_FUSED = 1, /* the plan: both lanes at once */
  MC2_RUN_SERIAL = 2 /* one lane after the other, for comparison */
};

typedef struct mc2_run_times {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  double makespan_us; /* from the first start to the last end of a lane, over the ranks of this process */
  double wall_us;     /* how long the caller waited in mc2_run() */
} mc2_run_times;

/* Runs once and returns when every rank of this process has finished. Allocates nothing and takes no lock of mc2's.
 * Threads: a communicator runs one thing at a time; a second thread gets MC2_ERROR_BUSY at once. Collective over the
 * processes that hold ranks. MC2_ERROR_SYSTEM when a rank fails or the deadline passes; the communicator cannot be used
 * for runs after that. @param times may be NULL */
MC2_API mc2_status mc2_run(mc2_prepared* prepared, int32_t mode, mc2_run_times* times);

/* Enqueues one fused run on the caller's streams (cudaStream_t), one per rank of this process, and returns without
 * waiting. Threads and errors as for mc2_run(), and MC2_ERROR_UNSUPPORTED from a backend without streams. @param eager
 * 1: launches kernel by kernel; 0: launches a CUDA graph */
MC2_API mc2_status mc2_enqueue(mc2_prepared* prepared, void* const* streams, size_t count, int32_t eager);
MC2_API mc2_status mc2_free_prepared(mc2_prepared* prepared);

/* As mc2_find_plan() on the communicator's machine, but first scales the model to the machine's present speed: runs the
 * matmul and the collective alone on random matrices, each at least 5 times and for 50 to 400 ms. Meant for
 * predictions that are compared with times measured now. Tuned plans are not used, and the plan is not remembered.
 * MC2_ERROR_UNSUPPORTED for a communicator of several processes. */
MC2_API mc2_status mc2_find_plan_anchored(const mc2_context* context, mc2_communicator* communicator,
                                          const mc2_op_spec* op, mc2_plan** plan);

/* ---- Collectives alone ---- */

/* Collectives between processes of one machine, one rank each, through memory that the processes share. */
typedef struct mc2_collectives mc2_collectives;

typedef struct mc2_collectives_options {
  size_t size;
  uint32_t version;
  int32_t world_size;   /* must be given */
  const char* key;      /* same text in all processes of this world, used by no other world; must be given */
  int32_t rank;         /* the rank that this process holds */
  int32_t threads;      /* how many threads may move this rank's data; the ranks' smallest number holds; 0: 1 */
  uint32_t deadline_ms; /* how long one rank waits for another, also in mc2_collectives_open(); 0: 60000 */
  int32_t reserved;     /* 0 */
} mc2_collectives_options;

/* Every call below is collective: all ranks make it, in the same order, with the same sizes and types. It returns when
 * this rank's result is complete. Sums add the ranks' values in the order of the ranks, so that all ranks get the same
 * bits; MC2_F16 and MC2_BF16 are added in f32 and rounded once, MC2_I8 wraps modulo 256. Illegal arguments give
 * MC2_ERROR_INVALID_SPEC before anything is exchanged. A rank that makes another call, fails, ends or does not come in
 * time gives MC2_ERROR_SYSTEM, which names the rank; after that no call succeeds. A process holds one rank: two threads
 * that open two ranks of one world are both refused. Threads: one call at a time; a second thread gets MC2_ERROR_BUSY
 * at once. */
MC2_API mc2_status mc2_collectives_open(const mc2_collectives_options* options, mc2_collectives** collectives);
/* Replaces `data` by the sum over the ranks. @param dtype MC2_F32, MC2_F16, MC2_BF16 or MC2_I8 */
MC2_API mc2_status mc2_all_reduce(mc2_collectives* collectives, void* data, size_t byte_count, int32_t dtype);
/* Sums `data` over the ranks and writes this rank's part of the sum to `own`. @param data world_size * own_bytes bytes
 */
MC2_API mc2_status mc2_reduce_scatter(mc2_collectives* collectives, const void* data, void* own, size_t own_bytes,
                                      int32_t dtype);
/* Writes every rank's `own` to `all`, in the order of the ranks. @param all world_size * own_bytes bytes; `own` may be
 * this rank's place in it */
MC2_API mc2_status mc2_all_gather(mc2_collectives* collectives, const void* own, size_t own_bytes, void* all);
/* Sends part q of `data` to rank q. @param received the parts that the ranks sent, in the order of the ranks; must not
 * overlap `data` @param byte_count of `data`, and of `received` */
MC2_API mc2_status mc2_all_to_all(mc2_collectives* collectives, const void* data, void* received, size_t byte_count);
MC2_API mc2_status mc2_free_collectives(mc2_collectives* collectives);

/* ---- Stores ---- */

/* A store: a file that keeps samples, models and plans, as `mc2 tune` does. */
typedef struct mc2_store mc2_store;

/* @param read_only 0: the file is made when missing, with its directory; 1: calls that write return MC2_ERROR_READ_ONLY
 */
MC2_API mc2_status mc2_store_open(const char* path, int32_t read_only, mc2_store** store);
/* Keeps a plan. It replaces an earlier plan with the same operator, machine and purpose. @param purpose NULL: "tuned",
 * the purpose that mc2_find_plan() looks for. MC2_ERROR_INVALID_SPEC for a plan whose operator and machine have other
 * numbers of ranks */
MC2_API mc2_status mc2_store_put_plan(mc2_store* store, const mc2_plan* plan, const char* purpose);
MC2_API mc2_status mc2_store_get_plan(mc2_store* store, const mc2_op_spec* op, const mc2_machine* machine,
                                      const char* purpose, mc2_plan** plan);
MC2_API mc2_status mc2_store_put_model(mc2_store* store, const mc2_model* model);
/* The model that was fitted for the operator or for the same operator with another length of its cut axis. */
MC2_API mc2_status mc2_store_get_model(mc2_store* store, const mc2_op_spec* op, const mc2_machine* machine,
                                       mc2_model** model);
/* The costs of a machine that is not this one: its published costs (mc2_model_of_device()). Costs that were imported
 * under its name (`mc2 import`) replace published ones, and answer alone for a device without published costs. Cuts
 * that were measured on the device and imported recalibrate the model. */
MC2_API mc2_status mc2_store_get_device_model(mc2_store* store, const char* device, const mc2_op_spec* op,
                                              mc2_model** model);
MC2_API mc2_status mc2_free_store(mc2_store* store);

/* ---- Tuning ---- */

/* Which part of a prepared plan is run. */
enum {
  MC2_PART_FUSED = 1,          /* the whole plan, both lanes at once */
  MC2_PART_SERIAL = 2,         /* one lane after the other; asked of uncut plans only */
  MC2_PART_SERIAL_COMPUTE = 3, /* the matmul of MC2_PART_SERIAL alone */
  MC2_PART_COMPUTE = 4,        /* the compute lane alone */
  MC2_PART_COMMUNICATION = 5   /* the communication lane alone */
};

/* What one measurement of blocks times: one lane alone, or each lane while the other works, too. */
enum { MC2_TIME_MATMUL = 1, MC2_TIME_COLLECTIVE = 2, MC2_TIME_BOTH_LANES = 3 };

/* An operator that the caller's program runs and times itself. The thread that called mc2_tune_bench() calls these
 * functions. A status other than MC2_OK ends the tuning, and mc2_tune_bench() returns it. Times are those of the
 * slowest rank and above 0. */
typedef struct mc2_bench {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  void* user;
  const mc2_op_spec* op;
  const mc2_machine* machine;
  const char* const* variants; /* the variants to measure, best known default first; at least one */
  size_t variant_count;
  /* Makes a plan ready to run, once for each variant, cut and schedule; the other functions name it by `number`. The
   * plan's handle is valid until the tuning ends. */
  mc2_status (*prepare)(void* user, size_t number, const mc2_plan* plan);
  /* Runs the plan with this number and checks its result. Returns MC2_ERROR_MISMATCH if the result is wrong. */
  mc2_status (*verify)(void* user, size_t number);
  /* Runs one part (MC2_PART_...) of the plan once. @param us the time that a caller waits for the result */
  mc2_status (*time_us)(void* user, size_t number, int32_t part, double* us);
  /* Runs the whole cut axis in blocks of one length and times what `what` (MC2_TIME_...) says. @param matmul_us,
   * collective_us time of ONE block; a lane that is not timed need not be written */
  mc2_status (*time_blocks)(void* user, const char* variant, int32_t what, int64_t block_length, double* matmul_us,
                            double* collective_us);
  int64_t (*now_ns)(void* user); /* the clock for time budgets; NULL: the system's steady clock */
} mc2_bench;

typedef struct mc2_tune_options {
  size_t size;
  uint32_t version;
  int32_t max_sample_count;             /* samples of each block length, at most; 0: 40 */
  const mc2_plan_options* plan_options; /* NULL: the backend's defaults */
  double budget_s;                      /* time for profiling and races together; 0: 60. It is no deadline: each block
                                           length gets one round and each contender six to nine pairs, however
                                           long these take, and making and checking the operands does not count.
                                           is_cancelled is the way to a deadline */
  int32_t race_round_count;             /* pairs of runs in each race, 6 or more: as many as 95 % intervals take;
                                           0: until the intervals are narrow */
  int32_t reserved;                     /* 0 */
  const char* variant;                  /* plan with this variant only; NULL: with any */
  const mc2_model* model;               /* plan with this model, of this machine, instead of profiling; NULL: profile */
  mc2_store* store;                     /* keeps samples, model, measurements and the plan, with the purpose "tuned" or
                                           "tuned VARIANT OPTIONS" (see mc2_tune()). Other calls on the store wait until
                                           the tuning ends. NULL: nothing is kept */
  mc2_log_function log;                 /* receives a line for each decision, level 3; NULL: no lines */
  int32_t (*is_cancelled)(void* user);  /* asked before each pair of runs and each check; another than 0 ends it with
                                           MC2_ERROR_CANCELLED, and the store keeps what was complete. NULL: the tuning
                                           cannot be cancelled */
  void* user;                           /* passed to log and is_cancelled */
} mc2_tune_options;

/* Does what `mc2 tune` does, on random matrices: profiles, fits, plans, checks the best cuts, races them against matmul
 * and collective one after the other, and returns the winner, which may be "do not cut". Takes seconds to minutes.
 * MC2_ERROR_UNSUPPORTED for a communicator of several processes. A plan that was tuned for one variant only, or with
 * plan options other than the machine's defaults, is kept with a purpose that names them, e.g. "tuned direct
 * max_block_count=4". mc2_find_plan() does not find it; mc2_store_get_plan() with this purpose does, and so does `mc2
 * plan` with the same options. @param options NULL: defaults */
MC2_API mc2_status mc2_tune(mc2_communicator* communicator, const mc2_op_spec* op, const mc2_tune_options* options,
                            mc2_plan** plan);
/* As mc2_tune(), where the caller's functions run the operator. */
MC2_API mc2_status mc2_tune_bench(const mc2_bench* bench, const mc2_tune_options* options, mc2_plan** plan);

/* ---- Cuts that another program ran ---- */

/* What a cut took when the caller's program ran it. Times are medians. serial_us, compute_us and communication_us are 0
 * where they were not measured. */
typedef struct mc2_measured_cut {
  size_t size;
  uint32_t version;
  uint32_t run_count;     /* 0: 1 */
  const char* variant;    /* one of the model's variants; NULL: the model's only variant. The store does not keep it */
  const int64_t* lengths; /* block lengths in execution order */
  size_t length_count;
  double fused_us;                /* the cut operator; must be given */
  double serial_us;               /* the uncut operator, measured together with fused_us */
  double compute_us;              /* the uncut matmul alone */
  double communication_us;        /* the uncut collective alone */
  double relative_error;          /* standard error of fused_us divided by fused_us; 0: unknown, 1 % is assumed */
  double compute_blocks_us;       /* the cut's blocks in the compute lane together, as they ran; 0: not timed */
  double communication_blocks_us; /* the same for the communication lane */
} mc2_measured_cut;

/* What measured cuts tell about a machine: a recalibrated model, the best cut and the cuts to run next. */
typedef struct mc2_refinement mc2_refinement;

enum {
  MC2_FACTOR_COMPUTE_SLOWDOWN = 1, /* how many times slower a lane is while the other works */
  MC2_FACTOR_COMMUNICATION_SLOWDOWN = 2,
  MC2_FACTOR_BLOCK_OVERHEAD = 4
};

/* The intervals (low to high) are 90 % intervals. */
typedef struct mc2_refinement_summary {
  size_t size;
  uint32_t version;
  uint32_t determined_factors; /* bits MC2_FACTOR_...: factors that the cuts determine better than the model did */
  double compute_slowdown, compute_slowdown_low, compute_slowdown_high;
  double communication_slowdown, communication_slowdown_low, communication_slowdown_high;
  double block_overhead_us, block_overhead_low_us, block_overhead_high_us;
  double serial_us;      /* time of the uncut operator: measured, or predicted where it was not (is_serial_measured) */
  double relative_noise; /* standard error of the best cut's time, divided by that time */
  double expected_gain;  /* expected relative gain from running the first cut of mc2_refinement_next() */
  int32_t is_serial_measured;
  int32_t reserved;
  size_t next_count; /* number of cuts to run next; 0: no further cut is expected to gain more than the noise */
  const char* text;  /* one sentence about what was learnt */
  /* How many times longer the best cut's blocks take on a lane than the uncut whole: measured where the blocks were
   * timed, else predicted by the model; 0 if the best is not to cut */
  double compute_expansion, communication_expansion;
} mc2_refinement_summary;

/* Learns from cuts that the caller ran, as `mc2 refine` does (docs/cost_model.md, Recalibration). @param cuts the
 * `size` field is the same in all; NULL, 0: no cut has run yet, and mc2_refinement_next() says which to run first
 * @param options limit the cuts to run next; NULL: defaults */
MC2_API mc2_status mc2_refine(const mc2_model* model, const mc2_op_spec* op, const mc2_measured_cut* cuts, size_t count,
                              const mc2_plan_options* options, mc2_refinement** refinement);
MC2_API mc2_status mc2_refinement_summarize(const mc2_refinement* refinement, mc2_refinement_summary* summary);
/* The plan to use now: the best cut that was measured, or "do not cut". */
MC2_API mc2_status mc2_refinement_plan(const mc2_refinement* refinement, mc2_plan** plan);
/* The recalibrated model, which also predicts other m. */
MC2_API mc2_status mc2_refinement_model(const mc2_refinement* refinement, mc2_model** model);
/* The index-th cut to run next; the first is the one that is expected to teach most. MC2_ERROR_OUT_OF_RANGE if index is
 * not below next_count. */
MC2_API mc2_status mc2_refinement_next(const mc2_refinement* refinement, size_t index, mc2_plan** plan);
MC2_API mc2_status mc2_free_refinement(mc2_refinement* refinement);

/* Keeps measured cuts under the name of a machine, as `mc2 import` does, where `mc2 refine` and `mc2 plan --device`
 * find them. Cuts that the store has already are skipped. @param kept_count the number of cuts that were added; may be
 * NULL
 */
MC2_API mc2_status mc2_store_put_measured_cuts(mc2_store* store, const char* device, const mc2_op_spec* op,
                                               const mc2_measured_cut* cuts, size_t count, size_t* kept_count);

#ifdef __cplusplus
}
#endif

#endif /* MC2_H */
