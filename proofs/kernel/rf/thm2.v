(* rf.thm2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Theorem 2 (eq. 4).
   DP-SGD with random freeze on a G-smooth L, p~ symmetric: there is kappa >= 1 - r with (1/T) sum P(|xi| < C/4) h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma Delta_C + (1 - r) gamma Delta_DP - (1/T) sum E_m b_t), h(v) = min(|v|, 3C/4), Delta_C = G C^2 / 2. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.thm3_2 rs.thm3_4.
(* The case sigma = 0, which the theorem does not exclude, without deviation (see rs.thm3.4), with P = 1 and b_t = 0. *)
Definition h (C : R) (v : vec) : R := Rmin (norm v) (3 * C / 4).
Definition Delta_DP (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Definition printed : Prop := forall d k C G B gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k <= kappa /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2) + share d k * gamma * Delta_DP C 0 (INR d) G B).
