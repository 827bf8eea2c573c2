(* rs.thm3.5: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.5 (eq. 14).
   DP-SGD with RS: as Theorem 3.4, with the noise N(0, C^2 sigma^2 I) and + ((1 - r)/kappa) gamma Delta_sigma on the right, Delta_sigma = C^2 sigma^2 d G / (2 B^2). *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3 rs.thm3_2 rs.thm3_4.
(* The case sigma = 0, which the theorem does not exclude, without deviation (see rs.thm3.4). *)
Definition Delta_sigma (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Definition printed : Prop := forall d k C G B gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k < kappa < 1 /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2))
     + (1 - (1 - share d k)) / kappa * gamma * Delta_sigma C 0 (INR d) G B.
