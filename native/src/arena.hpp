// Memory that is reserved at load and lives as long as the model: zeroed, aligned, on huge
// pages where the system has them, so that streaming weights does not miss the TLB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
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
        for (const Chunk& chunk : chunks_) release(chunk);
    }

    // Zeroed and aligned to 64 bytes; pages count only once they are touched.
    template <class T>
    T* allocate(std::size_t count) {
        return reinterpret_cast<T*>(bytes((count * sizeof(T) + 63) / 64 * 64));
    }

private:
    struct Chunk {
        std::uint8_t* data;
        std::size_t size, used;
    };

#ifdef __SANITIZE_ADDRESS__
    // Each allocation by itself, so that the sanitizer sees where it ends.
    static constexpr std::size_t kChunk = 0;
    static constexpr std::align_val_t kAlignment{64};
    static Chunk reserve(std::size_t size) {
        void* data = ::operator new(size, kAlignment);
        std::memset(data, 0, size);
        return {static_cast<std::uint8_t*>(data), size, 0};
    }
    static void release(const Chunk& chunk) { ::operator delete(chunk.data, kAlignment); }
#else
    static constexpr std::size_t kChunk = std::size_t(64) << 20;
    static Chunk reserve(std::size_t size) {
        void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        madvise(data, size, MADV_HUGEPAGE);
#endif
        return {static_cast<std::uint8_t*>(data), size, 0};
    }
    static void release(const Chunk& chunk) { munmap(chunk.data, chunk.size); }
#endif

    std::uint8_t* bytes(std::size_t size) {
        const std::lock_guard lock(mutex_);
        if (chunks_.empty() || chunks_.back().size - chunks_.back().used < size)
            chunks_.push_back(reserve(size > kChunk ? size : kChunk));
        Chunk& chunk = chunks_.back();
        std::uint8_t* out = chunk.data + chunk.used;
        chunk.used += size;
        return out;
    }

    std::mutex mutex_;
    std::vector<Chunk> chunks_;
};

}  // namespace headrace
