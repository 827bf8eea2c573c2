(* rs.thm5.1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 5.1 (eq. 17).
   The gradient g = k x of an unknown x is perturbed by xi ~ N(0, sigma^2 I) and masked; the attacker knows k and m and solves (m k) x^ = m (g + xi) by least
   squares: E |x - x^|^2 >= sigma^2 / ((1 - r)|k|^2). The proof assumes m (.) k <> 0. *)
From kernel Require Import definitions lemmas.

(* the least squares solution from what is left of g + sigma n *)
Definition solved (m : list bool) (k n : vec) (x sigma : R) : R :=
  dot (mask m k) (mask m (add (scale x k) (scale sigma n))) / square (mask m k).
Definition hit (k : vec) (m : list bool) : bool := if Rlt_dec 0 (square (mask m k)) then true else false.   (* m (.) k <> 0 *)
(* the mean error given m (.) k <> 0, over the uniform mask and the noise *)
Definition mean_error {O} (e : expectation O) (n : nat -> O -> R) (d K : nat) (k : vec) (x sigma : R) : R :=
  avg (filter (hit k) (masks d K)) (fun m => ex e (fun o => (x - solved m k (noise n d o) x sigma) ^ 2)).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d K k x sigma, (0 < K <= d)%nat -> length k = d -> 0 < square k -> 0 < sigma ->
  sigma ^ 2 / (share d K * square k) <= mean_error e n d K k x sigma.
(* it holds where every mask keeps a non-zero entry of k *)
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K k x sigma, (0 < K <= d)%nat -> length k = d -> 0 < square k -> 0 < sigma ->
  Forall (fun m => 0 < square (mask m k)) (masks d K) ->
  sigma ^ 2 / (share d K * square k) <= mean_error e n d K k x sigma.
