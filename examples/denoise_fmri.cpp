// Four spatial axes, end to end: a network over (time, depth, height, width) learns to take noise off a series of
// magnetic-resonance volumes. It trains on the lower two thirds of the head and is judged on the slices above, which
// it has never seen. Convolution, pooling and interpolation are the same functions as for images.
//
//   example_denoise_fmri [--series FILE.nii.gz] [--steps N] [--picture FILE.png]
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <calor/calor.h>
#include <nifti2_io.h>

namespace ca = calor;

namespace {

/// A NIfTI file as f32 [1, 1, time, depth, height, width], 1 being the brightness of bright tissue.
ca::Tensor read_series(const std::string& path) {
    const std::unique_ptr<nifti_image, void (*)(nifti_image*)> image(nifti_image_read(path.c_str(), 1),
                                                                     &nifti_image_free);
    if (!image || image->datatype != DT_INT16) throw std::runtime_error("not a series of 16-bit volumes: " + path);
    const ca::Shape shape{1, 1, std::max<std::int64_t>(image->nt, 1), image->nz, image->ny, image->nx};
    const auto* voxels = static_cast<const std::int16_t*>(image->data);
    return ca::tensor(std::span(voxels, image->nvox), shape).to(ca::f32) / 700.0;
}

/// Looks at a neighbourhood of 3 x 3 x 3 x 3, once at full and once at half resolution, and says what to add.
struct Denoiser {
    ca::nn::Conv enter{{.in = 1, .out = 8, .kernel = {3, 3, 3, 3}, .padding = ca::same}};
    ca::nn::Conv down{{.in = 8, .out = 16, .kernel = {1, 2, 2, 2}, .stride = {1, 2, 2, 2}}};
    ca::nn::Conv middle{{.in = 16, .out = 16, .kernel = {3, 3, 3, 3}, .padding = ca::same}};
    ca::nn::Conv up{{.in = 16, .out = 8, .kernel = {1, 1, 1, 1}}};
    ca::nn::Conv leave{{.in = 8, .out = 1, .kernel = {3, 3, 3, 3}, .padding = ca::same}};
    CALOR_FIELDS(enter, down, middle, up, leave)

    ca::Tensor operator()(const ca::Tensor& noisy) const {
        const ca::Tensor fine = ca::relu(enter(noisy));
        const ca::Tensor coarse = up(ca::relu(middle(ca::relu(down(fine)))));
        const auto& s = noisy.shape();
        const ca::Tensor spread =
            ca::interpolate(coarse, {.size = ca::Dims{s[2], s[3], s[4], s[5]}, .mode = ca::Interpolation::linear});
        return noisy + leave(fine + spread);
    }
};

/// `count` random blocks of both volumes, 12 x 32 x 32 voxels each.
ca::Tensor blocks(const ca::Tensor& series, std::int64_t count, ca::Generator& generator) {
    std::vector<ca::Tensor> chosen;
    for (std::int64_t i = 0; i < count; ++i) {
        ca::Tensor block = series;
        for (const auto& [axis, size] : {std::pair{3, 12}, {4, 32}, {5, 32}}) {
            const auto start =
                ca::randint(0, series.size(axis) - size + 1, {}, ca::i64, generator).item<std::int64_t>();
            block = ca::slice(block, axis, {start, start + size});
        }
        chosen.push_back(block);
    }
    return ca::concat(chosen, 0);
}

/// Peak signal-to-noise ratio in decibels, for signals up to 1.
double psnr(const ca::Tensor& a, const ca::Tensor& b) {
    return -10 * std::log10(ca::mean(ca::square(a - b)).item<float>());
}

/// A slice in the middle of the last third, three times beside itself: as measured, with noise, denoised.
void paint(const std::string& path, const std::vector<ca::Tensor>& series) {
    std::vector<ca::Tensor> panels;
    for (const ca::Tensor& s : series) {
        const ca::Tensor volume = ca::reshape(ca::slice(s, 2, {0, 1}), {s.size(3), s.size(4), s.size(5)});
        panels.push_back(ca::flip(ca::index_select(volume, 0, ca::tensor({std::int64_t{3}})), {1}));
    }
    const ca::Tensor row = ca::concat(panels, 2);
    const ca::Dims twice{2 * row.size(1), 2 * row.size(2)};
    ca::data::write_image(
        path,
        ca::reshape(ca::interpolate(ca::unsqueeze(row, 0), {.size = twice, .mode = ca::Interpolation::cubic}), twice));
}

int run(const std::string& path, int steps, const std::string& picture) {
    ca::manual_seed(1);
    ca::Generator generator(2);
    constexpr double noise = 0.1;
    const ca::Tensor series = read_series(path).eval();
    const ca::Tensor training = ca::slice(series, 3, {0, 16}), unseen = ca::slice(series, 3, {16, 24});

    Denoiser net;
    net.leave.weight.set(ca::zeros_like(net.leave.weight));  // at first it adds nothing
    std::printf("%lld parameters, volumes %s\n", static_cast<long long>(ca::nn::count_parameters(net)),
                ca::to_string(series.shape()).c_str());
    ca::optim::Adam optimizer{ca::nn::parameters(net), {.learning_rate = 3e-3}};
    ca::train::Progress progress({.label = "denoise", .total = steps});
    for (int step = 1; step <= steps; ++step) {
        const ca::Tensor clean = blocks(training, 4, generator);
        const ca::Tensor loss = ca::nn::mse(net(clean + ca::normal(clean.shape(), 0, noise)), clean);
        optimizer.step(ca::backward(loss));
        char status[32];
        std::snprintf(status, sizeof status, "loss %.5f", loss.item<float>());
        progress.update(step, status);
    }
    progress.finish("");

    const ca::NoGrad off;
    const ca::Tensor noisy = (unseen + ca::normal(unseen.shape(), 0, noise)).eval();
    const ca::Tensor denoised = net(noisy).eval();
    const ca::Tensor blurred =
        ca::avg_pool(noisy, {.kernel = {1, 3, 3, 3}, .stride = 1, .padding = {0, 1, 1, 1}, .count_include_pad = false});
    std::printf("unseen slices, PSNR: with noise %.2f dB, mean of 3 x 3 x 3 %.2f dB, denoised %.2f dB\n",
                psnr(noisy, unseen), psnr(blurred, unseen), psnr(denoised, unseen));
    if (!picture.empty()) paint(picture, {unseen, noisy, denoised});
    return psnr(denoised, unseen) > psnr(noisy, unseen) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Takes noise off a series of volumes"};
    std::string series = CALOR_SOURCE_DIR "/data/fmri/example4d.nii.gz", picture;
    int steps = 400;
    app.add_option("--series", series, "16-bit NIfTI file");
    app.add_option("--steps", steps, "training steps");
    app.add_option("--picture", picture, "PNG file of a slice: measured, with noise, denoised");
    CLI11_PARSE(app, argc, argv);
    return run(series, steps, picture);
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
