// Made by torch_optim.py with PyTorch 2.15.0+cu132. p = (0.5, -1, 2), g_t = (sin t, cos 2t / t, 1 - t / 3), t = 1..5.
#pragma once

namespace torch_values {

inline constexpr double SGD[3] = {0.48238383502776211, -0.93728988009703973, 2};
inline constexpr double SGDWeightDecay[3] = {0.47279807725064149, -0.91355142199205031, 1.95215171036875};
inline constexpr double SGDMomentum[3] = {0.044143211316562445, -0.78023238873139322, 1.7423599999999999};
inline constexpr double SGDDampening[3] = {0.058675946335418193, -0.74628405323777169, 1.6390395275625369};
inline constexpr double SGDNesterov[3] = {0.05368370951017748, -0.6658184413671403, 1.6172694424465275};
inline constexpr double Adam[3] = {0.19674082374650775, -0.70093538614047435, 1.7194355544391158};
inline constexpr double AdamBetas[3] = {0.35764580451254385, -0.82741496014478599, 1.8312016002082101};
inline constexpr double AdamAmsgrad[3] = {0.33869158709641467, -0.78056388750770822, 1.8716876117168182};
inline constexpr double AdamW[3] = {0.19514220386146619, -0.69673447605392724, 1.7103084703675351};
inline constexpr double AdamWDecay[3] = {0.29094441730380283, -0.65887930029834552, 1.6097643901559664};

}  // namespace torch_values
