/* ring PLATFORM BACKEND BYTES: the time of a ring all-reduce, ps. Each NPU sends a part to the next,
 * and goes on when it has received one from the NPU before. */
#include "armillary_network.h"

#include <inttypes.h>
#include <signal.h>

struct npu {
    struct armillary_network *net;
    uint32_t number, step;
    uint64_t part;
};

static void step(void *argument) {
    struct npu *npu = (struct npu *)argument;
    uint32_t npus = armillary_network_npus(npu->net), number = npu->number;
    uint32_t tag = npu->step++;
    if (tag == 2 * (npus - 1)) return;
    armillary_network_send(npu->net, number, (number + 1) % npus, npu->part, tag, NULL, NULL);
    armillary_network_receive(npu->net, (number + npus - 1) % npus, number, npu->part, tag, step, npu);
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "ring PLATFORM BACKEND BYTES\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    struct armillary_network *net = armillary_network_open(words[1], words[2]);
    if (!net) return 1;
    uint32_t npus = armillary_network_npus(net);
    struct npu *all = (struct npu *)calloc(npus + 1, sizeof *all);
    for (uint32_t number = 0; all && number < npus; number++) {
        all[number] = (struct npu){net, number, 0, strtoull(words[3], NULL, 10) / npus};
        armillary_network_schedule(net, 0, step, &all[number]);
    }
    int failed = armillary_network_run(net);
    if (failed)
        fprintf(stderr, "%s\n", armillary_network_problem(net));
    else
        printf("%" PRIu64 "\n", armillary_network_time(net));
    armillary_network_close(net);
    free(all);
    return failed ? 1 : 0;
}
