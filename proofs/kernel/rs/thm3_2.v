(* rs.thm3.2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.2 (eq. 5).
   Noisy SGD with RS on a G-smooth L, gamma = 1/(G sqrt T), |xi_t|^2 <= sigma_g^2: (1/T) sum |grad w_t|^2 <= 2 G / ((1 - r) sqrt T) Delta_L
   + (sigma_g^2/B + d sigma^2/B^2) / sqrt T. The text after it: it describes vanilla SGD with RS too, by removing the last term (sigma = 0). *)
From kernel Require Import definitions lemmas.

(* Vanilla SGD, sigma = 0, with all gradients equal to the true one, sigma_g = 0: a case that the theorem and its text cover.
   The masks of the steps are drawn from a finite law q of sequences; each by itself is uniform. Algorithm 1 holds one for an epoch. *)
Definition uniform_masks (d k : nat) (q : law (nat -> list bool)) : Prop :=
  lawful q /\ forall t f, E q (fun m => f (m t)) = avg (masks d k) f.
Fixpoint run (g : vec -> vec) (gamma : R) (m : nat -> list bool) (w : vec) (t : nat) : vec :=
  match t with O => w | S t' => let u := run g gamma m w t' in sub u (scale gamma (mask (m t') (g u))) end.
Definition printed : Prop := forall d k G L g least_L q w T, (0 < k <= d)%nat -> 0 < G -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  E q (fun m => / INR T * total (map (fun t => square (g (run g (1 / (G * sqrt (INR T))) m w t))) (seq 0 T)))
  <= 2 * G / (share d k * sqrt (INR T)) * (L w - least_L).
