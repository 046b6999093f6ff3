// Asks libmc2.so one question, as any C program would. Prints "plan DIGEST", or "error NAME" and the message in one
// line. Asks again for each line of its input.
//
//   c_door STORE SERVER FINGERPRINT.json TRANSFER MODEL.json|- KIND M N K DTYPE RANKS BIAS RESIDUAL NORM
//          EXPERTS_PER_RANK EXPERTS TOP_K TABLES TABLE_ROWS POOLING
#include <mc2.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static char content[1 << 20];

static size_t read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return 0;
  const size_t length = fread(content, 1, sizeof content, file);
  fclose(file);
  return length;
}

static int refused(void) {
  mc2_error error = MC2_INIT(mc2_error);
  mc2_last_error(&error);
  printf("error %s\n%s\n", error.name, error.message);
  return 0;
}

static void answer(const mc2_context* context, const mc2_op_spec* op, const mc2_machine* machine) {
  mc2_plan* plan = NULL;
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  if (mc2_find_plan(context, op, machine, &plan) != MC2_OK || mc2_plan_summarize(plan, &summary) != MC2_OK) {
    refused();
    return;
  }
  printf("plan %s\n", summary.digest);
  mc2_free_plan(plan);
}

int main(int count, char** arguments) {
  if (count != 21) return 2;
  mc2_machine* machine = NULL;
  if (mc2_machine_from_json(content, read_file(arguments[3]), &machine) != MC2_OK) return refused();
  mc2_model* model = NULL;
  if (strcmp(arguments[5], "-") != 0 && mc2_model_from_json(content, read_file(arguments[5]), &model) != MC2_OK)
    return refused();
  const mc2_model* models[] = {model};
  mc2_context_options options = MC2_INIT(mc2_context_options);
  options.flags = MC2_CONTEXT_NO_ENVIRONMENT;
  if (strcmp(arguments[4], "no") == 0) options.flags |= MC2_CONTEXT_NO_TRANSFER;
  options.store = arguments[1];
  options.refresh_ms = 1; // so short that a context remembers nothing between two questions
  options.server_url = arguments[2];
  options.server_wait_ms = 20000;
  options.models = models;
  options.model_count = model == NULL ? 0 : 1;
  mc2_context* context = NULL;
  if (mc2_context_create(&options, &context) != MC2_OK) return refused();
  mc2_op_spec op = MC2_INIT(mc2_op_spec);
  op.kind = atoi(arguments[6]);
  op.m = atoll(arguments[7]);
  op.n = atoll(arguments[8]);
  op.k = atoll(arguments[9]);
  op.dtype = atoi(arguments[10]);
  op.world_size = atoi(arguments[11]);
  op.has_bias = atoi(arguments[12]);
  op.has_residual = atoi(arguments[13]);
  op.norm = atoi(arguments[14]);
  op.experts_per_rank = atoll(arguments[15]);
  op.expert_count = atoll(arguments[16]);
  op.top_k = atoll(arguments[17]);
  op.table_count = atoll(arguments[18]);
  op.table_rows = atoll(arguments[19]);
  op.pooling = atoi(arguments[20]);
  char line[16];
  do answer(context, &op, machine);
  while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL);
  mc2_free_context(context);
  mc2_free_model(model);
  mc2_free_machine(machine);
  return 0;
}
