/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_rng.h - the entropy device: virtio 1.2, 5.4. Random bytes come from the host's kernel. */
#ifndef LULL_VIRTIO_RNG_H
#define LULL_VIRTIO_RNG_H

#include "virtio.h"

struct event_loop;

#define VIRTIO_RNG_BYTES_PER_SECOND (1u << 20) /* what a guest may take of the host's time for this */

/* loop may be NULL: no limit. NULL: no memory. */
struct virtio_dev *virtio_rng_create(struct event_loop *loop);

#endif
