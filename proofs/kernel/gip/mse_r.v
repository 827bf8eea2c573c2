(* gip.mse_r: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Proposition 2 (eq. 7, 12, 13).
   MSE_r = E|g - g (.) I_r|^2 = (d - kd) sigma_g^2 for a uniformly random index set I_r with K = kd ones, under Assumption 1. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K s, (0 < K <= d)%nat ->
  avg (masks d K) (fun I => ex e (fun o => let g := scale s (noise n d o) in square (sub g (mask I g)))) = (INR d - INR K) * s ^ 2.
