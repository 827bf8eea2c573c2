(* gep.residual_scale: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Theorem 3.3 and its proof (eq. 8).
   "r_t = max_i |(R_t)_{i,:}| is the sensitivity of residual gradient at step t." *)
From kernel Require Import definitions lemmas.

(* residuals are what a projection on the line of the unit vector b leaves (k = 1); neighbours differ by one record added *)
Definition residual (b g : vec) : vec := sub g (scale (dot g b) b).
Definition largest (b : vec) (gs : list vec) : R := fold_right Rmax 0 (map (fun g => norm (residual b g)) gs).
Definition released d (b : vec) (gs : list vec) : vec := sum d (map (residual b) gs).
Definition data d (gs : list vec) : Prop := gs <> [] /\ Forall (fun g => length g = d /\ norm g <= 1) gs.   (* 1-Lipschitz losses *)
(* for all data: no neighbour is further away *)
Definition printed : Prop := forall d b g gs, length b = d -> norm b = 1 -> data d gs -> data d (g :: gs) ->
  norm (sub (released d b (g :: gs)) (released d b gs)) <= largest b gs.
(* a public bound on all residuals is one *)
Definition correction : Prop := forall d b rho g gs, length b = d -> data d gs -> data d (g :: gs) ->
  norm (residual b g) <= rho -> norm (sub (released d b (g :: gs)) (released d b gs)) <= rho.
