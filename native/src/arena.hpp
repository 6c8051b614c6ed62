// Memory that is reserved at load and lives as long as the model: zeroed, aligned, on huge
// pages where the system has them, so that streaming weights does not miss the TLB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace headrace {

class Arena {
public:
    Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena() {
        for (const Chunk& chunk : chunks_) munmap(chunk.data, chunk.size);
    }

    // Zeroed and aligned to 64 bytes; pages count only once they are touched.
    template <class T>
    T* allocate(std::size_t count) {
        return reinterpret_cast<T*>(bytes((count * sizeof(T) + 63) / 64 * 64));
    }

private:
    static constexpr std::size_t kChunk = std::size_t(64) << 20;

    struct Chunk {
        std::uint8_t* data;
        std::size_t size, used;
    };

    std::uint8_t* bytes(std::size_t size) {
        const std::lock_guard lock(mutex_);
        if (chunks_.empty() || chunks_.back().size - chunks_.back().used < size) {
            const std::size_t whole = size > kChunk ? size : kChunk;
            void* data = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (data == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
            madvise(data, whole, MADV_HUGEPAGE);
#endif
            chunks_.push_back({static_cast<std::uint8_t*>(data), whole, 0});
        }
        Chunk& chunk = chunks_.back();
        std::uint8_t* out = chunk.data + chunk.used;
        chunk.used += size;
        return out;
    }

    std::mutex mutex_;
    std::vector<Chunk> chunks_;
};

}  // namespace headrace
