/* A V4L2 camera without a kernel behind it: put in front of the C library with LD_PRELOAD, it answers for the device /dev/simulated.
 * What it does follows the kernel's "Video for Linux API" for drivers with videobuf2; the structures and requests are those of
 * linux/videodev2.h.
 *
 * SIMULATED_CAMERA names a recorded stream: lines of text, then frames. The lines:
 *
 *   format CODE WIDTH HEIGHT STRIDE   a format that is offered; frames of the stream have that of the last one
 *   colours COLORSPACE QUANTIZATION   what S_FMT says of them
 *   busy                              another program has the camera: S_FMT ends with EBUSY
 *   output                            a device that gives no frames
 *   frames SIZE                       the last line; frames of SIZE bytes follow
 *
 * SIMULATED_EVENTS is what happens, a letter each; after the last one nothing does:
 *
 *   f  a frame is there          F  a frame is there before anybody waits for it
 *   e  its bytes are damaged     c  its bytes are cut off in the middle
 *   d  a frame is lost           a  the wait ends without a frame
 *   i  a signal ends the wait    I  a signal ends the next request for a frame
 *   u  the camera is unplugged
 *
 * What happened to the stream is appended to SIMULATED_LOG. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, OFFSET = 1 << 20 };

static struct { unsigned code, width, height, stride; } formats[MOST];
static unsigned format_count, colorspace, quantization, frame_size, is_busy, is_output;
static unsigned char *frames;
static unsigned frame_count, next_frame, sequence;
static const char *events;

static int device = -1, is_streaming, has_waited, chosen;
static struct { unsigned char *memory; int is_queued; } buffers[MOST];
static unsigned buffer_count, queue[MOST], queued;

static void note(const char *text)
{
    FILE *file = fopen(getenv("SIMULATED_LOG"), "a");
    if (file) {
        fprintf(file, "%s\n", text);
        fclose(file);
    }
}

static void read_stream(void)
{
    FILE *file = fopen(getenv("SIMULATED_CAMERA"), "rb");
    char line[256], code[5];
    while (file && fgets(line, sizeof line, file)) {
        unsigned width, height, stride;
        if (sscanf(line, "format %4s %u %u %u", code, &width, &height, &stride) == 4) {
            formats[format_count].code = v4l2_fourcc(code[0], code[1], code[2], code[3]);
            formats[format_count].width = width;
            formats[format_count].height = height;
            formats[format_count++].stride = stride;
        } else if (sscanf(line, "frames %u", &frame_size) == 1) {
            break;
        }
        sscanf(line, "colours %u %u", &colorspace, &quantization);
        is_busy |= !strcmp(line, "busy\n");
        is_output |= !strcmp(line, "output\n");
    }
    frames = malloc(64 << 20);
    frame_count = file && frame_size ? fread(frames, frame_size, (64 << 20) / frame_size, file) : 0;
    if (file)
        fclose(file);
    events = getenv("SIMULATED_EVENTS");
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static int is_one_of(const char *letters)
{
    return *events && strchr(letters, *events);
}

/* What poll returns: 1 where a request for a frame would not have to wait. */
static int wait_for_frame(struct pollfd *polled, int timeout)
{
    for (; *events == 'd'; events++) {
        sequence++;
        next_frame++;
    }
    int was_asked = is_one_of("ai");
    if (was_asked || !*events) {
        struct timespec wait = {0, (was_asked ? 1 : timeout) * 1000000L};
        int is_interrupted = nanosleep(&wait, NULL) || *events == 'i';
        events += was_asked;
        return is_interrupted ? fail(EINTR) : 0;
    }
    has_waited = 1;
    polled->revents = *events == 'u' ? POLLERR | POLLHUP : POLLIN;
    return 1;
}

static int dequeue(struct v4l2_buffer *buffer)
{
    if (!is_streaming)
        return fail(EINVAL);
    if (*events == 'I') {
        events++;
        return fail(EINTR);
    }
    if (*events == 'u')
        return fail(ENODEV);
    if (!queued || !is_one_of("fFec") || (*events != 'F' && !has_waited))
        return fail(EAGAIN);
    has_waited = 0;
    unsigned index = queue[0];
    memmove(queue, queue + 1, --queued * sizeof queue[0]);
    buffers[index].is_queued = 0;
    memset(buffers[index].memory, 0xee, OFFSET);
    memcpy(buffers[index].memory, frames + (size_t)(next_frame++ % frame_count) * frame_size, frame_size);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(buffer, 0, sizeof *buffer);
    buffer->index = index;
    buffer->type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    buffer->memory = V4L2_MEMORY_MMAP;
    buffer->bytesused = *events == 'c' ? frame_size / 2 : frame_size;
    buffer->length = OFFSET;
    buffer->flags = V4L2_BUF_FLAG_MAPPED | V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC | (*events == 'e' ? V4L2_BUF_FLAG_ERROR : 0);
    buffer->timestamp.tv_sec = now.tv_sec;
    buffer->timestamp.tv_usec = now.tv_nsec / 1000;
    buffer->sequence = sequence++;
    buffer->m.offset = index * OFFSET;
    events++;
    return 0;
}

static int request(unsigned long number, void *argument)
{
    if (*events == 'u' && number != VIDIOC_DQBUF && is_streaming)
        return fail(ENODEV);
    switch (number) {
    case VIDIOC_QUERYCAP: {
        struct v4l2_capability *capability = argument;
        memset(capability, 0, sizeof *capability);
        strcpy((char *)capability->driver, "simulated");
        strcpy((char *)capability->card, "Simulated camera");
        capability->device_caps = is_output ? V4L2_CAP_META_CAPTURE : V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
        /* Of all devices of this camera, of which one gives metadata. */
        capability->capabilities =
            V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING | V4L2_CAP_META_CAPTURE | V4L2_CAP_DEVICE_CAPS;
        return 0;
    }
    case VIDIOC_ENUM_FMT: {
        struct v4l2_fmtdesc *format = argument;
        for (unsigned i = 0, found = 0; i < format_count; i++)
            if ((!i || formats[i].code != formats[i - 1].code) && found++ == format->index) {
                format->pixelformat = formats[i].code;
                return 0;
            }
        return fail(EINVAL);
    }
    case VIDIOC_ENUM_FRAMESIZES: {
        struct v4l2_frmsizeenum *size = argument;
        for (unsigned i = 0, found = 0; i < format_count; i++)
            if (formats[i].code == size->pixel_format && found++ == size->index) {
                size->type = V4L2_FRMSIZE_TYPE_DISCRETE;
                size->discrete.width = formats[i].width;
                size->discrete.height = formats[i].height;
                return 0;
            }
        return fail(EINVAL);
    }
    case VIDIOC_S_FMT: {
        struct v4l2_format *format = argument;
        if (is_busy)
            return fail(EBUSY);
        if (format->type != V4L2_BUF_TYPE_VIDEO_CAPTURE)
            return fail(EINVAL);
        for (chosen = format_count - 1; chosen > 0; chosen--)
            if (formats[chosen].code == format->fmt.pix.pixelformat && formats[chosen].width == format->fmt.pix.width)
                break;
        format->fmt.pix.pixelformat = formats[chosen].code;
        format->fmt.pix.width = formats[chosen].width;
        format->fmt.pix.height = formats[chosen].height;
        format->fmt.pix.bytesperline = formats[chosen].stride;
        format->fmt.pix.sizeimage = frame_size;
        format->fmt.pix.colorspace = colorspace;
        format->fmt.pix.quantization = quantization;
        return 0;
    }
    case VIDIOC_REQBUFS: {
        struct v4l2_requestbuffers *all = argument;
        if (all->type != V4L2_BUF_TYPE_VIDEO_CAPTURE || all->memory != V4L2_MEMORY_MMAP)
            return fail(EINVAL);
        /* A driver may give fewer. */
        buffer_count = all->count = all->count > 3 ? 3 : all->count;
        return 0;
    }
    case VIDIOC_QUERYBUF: {
        struct v4l2_buffer *buffer = argument;
        if (buffer->index >= buffer_count)
            return fail(EINVAL);
        buffer->m.offset = buffer->index * OFFSET;
        buffer->length = OFFSET;
        return 0;
    }
    case VIDIOC_QBUF: {
        struct v4l2_buffer *buffer = argument;
        if (buffer->index >= buffer_count || !buffers[buffer->index].memory || buffers[buffer->index].is_queued)
            return fail(EINVAL);
        buffers[buffer->index].is_queued = 1;
        /* From now on the memory is the driver's. */
        memset(buffers[buffer->index].memory, 0xdd, OFFSET);
        queue[queued++] = buffer->index;
        return 0;
    }
    case VIDIOC_DQBUF:
        return dequeue(argument);
    case VIDIOC_STREAMON:
        note("on");
        is_streaming = 1;
        return 0;
    case VIDIOC_STREAMOFF:
        note("off");
        is_streaming = 0;
        return 0;
    }
    return fail(ENOTTY);
}

static int open_device(const char *path, int flags)
{
    if (strcmp(path, "/dev/simulated"))
        return -2;
    if (!(flags & O_NONBLOCK))
        return fail(EINVAL);
    read_stream();
    note("open");
    return device = memfd_create("simulated camera", 0);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, int);
    va_end(rest);
    int opened = open_device(path, flags);
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    return opened == -2 ? next(path, flags, mode) : opened;
}

int ioctl(int descriptor, unsigned long number, ...)
{
    va_list rest;
    va_start(rest, number);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (descriptor == device && device >= 0)
        return request(number, argument);
    int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    return next(descriptor, number, argument);
}

int poll(struct pollfd *polled, nfds_t count, int timeout)
{
    if (count == 1 && polled->fd == device && device >= 0)
        return wait_for_frame(polled, timeout);
    int (*next)(struct pollfd *, nfds_t, int) = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    return next(polled, count, timeout);
}

static void *map(int descriptor, int protection, int flags, size_t length, off_t offset)
{
    unsigned index = offset / OFFSET;
    if (index >= buffer_count || length != OFFSET || !(flags & MAP_SHARED))
        return errno = EINVAL, MAP_FAILED;
    (void)protection;
    if (ftruncate(descriptor, (off_t)buffer_count * OFFSET))
        return MAP_FAILED;
    /* The driver's own mapping, which it writes to. */
    void *(*next)(void *, size_t, int, int, int, off_t) =
        (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap64");
    buffers[index].memory = next(NULL, OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
    return next(NULL, OFFSET, PROT_READ, MAP_SHARED, descriptor, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    if (descriptor == device && device >= 0)
        return map(descriptor, protection, flags, length, offset);
    void *(*next)(void *, size_t, int, int, int, off_t) =
        (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap64");
    return next(address, length, protection, flags, descriptor, offset);
}

int close(int descriptor)
{
    if (descriptor == device && device >= 0) {
        note("close");
        device = -1;
    }
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
    return next(descriptor);
}
