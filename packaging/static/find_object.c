/* _dl_find_object for static programs with musl: GCC's unwinder, built for glibc, asks for it to find the frames of a panic.
 * `cargo xtask dist --build-std` compiles it; a toolchain's own musl target has an unwinder that needs none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct search {
    uintptr_t address;
    struct dl_find_object *found;
};

static int visit(struct dl_phdr_info *object, size_t size, void *data) {
    struct search *search = data;
    const ElfW(Phdr) *frames = NULL;
    int inside = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME)
            frames = segment;
        if (segment->p_type == PT_LOAD && search->address - start < segment->p_memsz) {
            inside = 1;
            search->found->dlfo_map_start = (void *)start;
            search->found->dlfo_map_end = (void *)(start + segment->p_memsz);
        }
    }
    if (!inside || !frames)
        return 0;
    search->found->dlfo_flags = 0;
    search->found->dlfo_link_map = NULL;
    search->found->dlfo_eh_frame = (void *)(object->dlpi_addr + frames->p_vaddr);
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *found) {
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(visit, &search) ? 0 : -1;
}

/* The unwinder refers weakly to these; a static archive gives only what is referred to strongly. */
__attribute__((used)) static void *const threads[] = {
    pthread_once, pthread_key_create, pthread_getspecific, pthread_setspecific, pthread_mutex_lock, pthread_mutex_unlock,
};
