(* rf.mse_criterion: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.2.
   MSE_RF < MSE_DP is taken, with Theorem 2, as showing "the possibility that we achieve better convergence by removing some signal while mitigating noise".
   Judged is the criterion: where the MSE of random freeze is lower, random freeze is the better choice. *)
From kernel Require Import definitions lemmas.

(* one example with the true gradient w, C = clip, s = C sigma / B; n: the noise of the step, d coordinates *)
Definition noise {O} (n : nat -> O -> R) (d : nat) (o : O) : vec := map (fun j => n j o) (seq 0 d).
Definition DP {O} (n : nat -> O -> R) d C s (w : vec) (o : O) : vec := add (clip C w) (scale s (noise n d o)).
Definition RF {O} (n : nat -> O -> R) d C s (w : vec) (m : list bool) (o : O) : vec :=
  add (clip C (mask m w)) (mask m (scale s (noise n d o))).
Definition error (w v : vec) : R := square (sub w v).
Definition loss (v : vec) : R := square v / 2.                 (* |v|^2 / 2, whose gradient at w is w *)
Definition after (g : R) (w v : vec) : R := loss (sub w (scale g v)).
(* the criterion, on this loss: some learning rate g' of random freeze does at least as well as any g of DP-SGD *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d k C s w, (0 < k < d)%nat -> 0 < C -> 0 < s -> length w = d ->
  avg (masks d k) (fun m => ex e (fun o => error w (RF n d C s w m o))) < ex e (fun o => error w (DP n d C s w o)) ->
  forall g, 0 < g -> exists g', 0 < g' /\
  avg (masks d k) (fun m => ex e (fun o => after g' w (RF n d C s w m o))) <= ex e (fun o => after g w (DP n d C s w o)).
